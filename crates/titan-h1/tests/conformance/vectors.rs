//! The vectors in `conformance/http1`, which both engines are held to.

use crate::drive::Setting;
use serde_json::Value;
use std::path::Path;
use titan_h1::Limits;
use titan_http::Method;

/// One vector, as far as its input goes; what it expects is still JSON, for `expectation` to read.
pub(crate) struct Vector {
    pub(crate) id: String,
    pub(crate) setting: Setting,
    pub(crate) input: Vec<u8>,
    pub(crate) close: bool,
    pub(crate) json: Value,
}

/// Every vector of every file.
pub(crate) fn all() -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find_map(|ancestor| {
        let folder = ancestor.join("conformance/http1");
        folder.is_dir().then_some(folder)
    });
    let mut vectors = Vec::new();
    for entry in folder.expect("the vectors").read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_data = path.extension().is_some_and(|extension| extension == "json");
        if is_data && path.file_name().is_some_and(|name| name != "schema.json") {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            let file: Value = serde_json::from_str(&text).expect("JSON");
            let list = file["vectors"].as_array().expect("a list of vectors").clone();
            vectors.extend(list.into_iter().map(Vector::new));
        }
    }
    vectors
}

impl Vector {
    fn new(json: Value) -> Vector {
        let is_client = json["role"] == "client";
        let method = json["request_method"].as_str().unwrap_or("GET");
        let method = Method::parse(method.as_bytes()).expect("a method");
        Vector {
            id: json["id"].as_str().expect("an id").to_owned(),
            setting: Setting {
                response_to: is_client.then_some(method),
                limits: limits(&json["limits"], is_client),
            },
            input: bytes(&json["input"]),
            close: json["close"] == true,
            json,
        }
    }
}

/// The defaults are those that the vectors' README gives; requests have a limit on their body.
fn limits(json: &Value, is_client: bool) -> Limits {
    let body = if is_client { u64::MAX } else { 1 << 20 };
    let number = |name: &str, default: u64| json[name].as_u64().unwrap_or(default);
    let size =
        |name: &str, default: usize| usize::try_from(number(name, default as u64)).expect("a size");
    let Limits { head, target, fields, chunk_line, trailers, drops_trailers, body: _ } =
        Limits::default();
    Limits {
        head: size("head", head),
        target: size("target", target),
        fields: size("fields", fields),
        chunk_line: size("chunk_line", chunk_line),
        trailers: size("trailers", trailers),
        drops_trailers,
        body: number("body", body),
    }
}

/// A string whose characters are bytes, or pieces and runs of such strings.
pub(crate) fn bytes(json: &Value) -> Vec<u8> {
    let latin1 = |text: &str| -> Vec<u8> {
        text.chars().map(|char| u8::try_from(u32::from(char)).expect("latin-1")).collect()
    };
    match json {
        Value::String(text) => latin1(text),
        Value::Array(pieces) => pieces.iter().flat_map(bytes).collect(),
        run => {
            let times = run["times"].as_u64().and_then(|times| usize::try_from(times).ok());
            latin1(run["repeat"].as_str().expect("a run")).repeat(times.expect("a count"))
        }
    }
}
