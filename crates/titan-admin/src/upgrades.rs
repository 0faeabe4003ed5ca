//! `/upgrade`: another process takes over, of this program or of another one.

use crate::http::{Request, Response, media_type};
use crate::orders::{NotUpgraded, Orders, Upgraded};
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use titan_http::Status;

/// What a body says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    program: Option<PathBuf>,
}

/// The process that serves now.
#[derive(Serialize)]
struct Shown {
    program: PathBuf,
    pid: u32,
    version: String,
}

/// Bytes of a path (PATH_MAX, with the zero at its end).
const MAX_PATH: usize = 4095;
const JSON: &[u8] = b"application/json";

/// Has another process take over, and tells which one serves then.
pub(crate) async fn upgrade(orders: &Orders, request: &Request) -> Response {
    let program = match program(request) {
        Ok(program) => program,
        Err(fault) => return Response::problem(Status::BAD_REQUEST, &fault),
    };
    match orders.upgrade(program).await {
        Ok(Upgraded { program, pid, version }) => {
            Response::json(Status::OK, &Shown { program, pid, version })
        }
        Err(error) => {
            let status = match error {
                NotUpgraded::Failed(_) => Status::UNPROCESSABLE_CONTENT,
                NotUpgraded::Conflict(_) => Status::CONFLICT,
                NotUpgraded::Unavailable => Status::SERVICE_UNAVAILABLE,
            };
            Response::problem(status, &error.to_string())
        }
    }
}

/// Which program a request is about, for the audit log.
pub(crate) fn named(request: &Request) -> String {
    match program(request) {
        Ok(Some(program)) => format!("program {}", program.display()),
        Ok(None) => "the program that runs".to_owned(),
        Err(_) => String::new(),
    }
}

/// The program that a request names, if it does.
fn program(request: &Request) -> Result<Option<PathBuf>, String> {
    if request.head.query().is_some() {
        return Err("this call has no parameters: the body names the program".to_owned());
    }
    if request.body.is_empty() {
        return Ok(None);
    }
    if !media_type(&request.head).eq_ignore_ascii_case(JSON) {
        return Err("send `Content-Type: application/json`".to_owned());
    }
    let Wanted { program } =
        serde_json::from_slice(&request.body).map_err(|error| error.to_string())?;
    program.map(check).transpose()
}

fn check(program: PathBuf) -> Result<PathBuf, String> {
    let bytes = program.as_os_str().as_bytes();
    if bytes.len() > MAX_PATH {
        return Err(format!("`program` is longer than {MAX_PATH} bytes"));
    }
    if bytes.iter().any(u8::is_ascii_control) {
        return Err("`program` contains a control character".to_owned());
    }
    match Path::is_absolute(&program) {
        true => Ok(program),
        false => Err(format!(
            "`program` has to be an absolute path: `{}` does not begin with `/`",
            program.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Peer;
    use titan_http::{FieldName, RequestHead};

    fn named(query: Option<&str>, media_type: &str, body: &str) -> Result<Option<PathBuf>, String> {
        let mut head = RequestHead::default();
        head.set_query(query.map(str::as_bytes)).unwrap();
        head.fields.append(FieldName::ContentType, media_type.as_bytes()).unwrap();
        let peer = Peer::Process { uid: 0, pid: None };
        program(&Request { head, body: body.as_bytes().to_vec(), peer })
    }

    #[test]
    fn a_program_is_an_absolute_path_or_the_one_that_runs() {
        let json = |body: &str| named(None, "application/json; charset=utf-8", body);
        let path = Some(PathBuf::from("/opt/a b/titan"));
        assert_eq!(json("{\"program\":\"/opt/a b/titan\"}"), Ok(path));
        assert_eq!(json("{}"), Ok(None));
        assert_eq!(named(None, "", ""), Ok(None));
        let long = format!("{{\"program\":\"/{}\"}}", "x".repeat(MAX_PATH));
        for (outcome, word) in [
            (json("{\"program\":\"bin/titan\"}"), "`bin/titan` does not begin with `/`"),
            (json("{\"program\":\"\"}"), "absolute"),
            (json("{\"program\":\"/a\\u0000b\"}"), "control character"),
            (json("{\"program\":\"/a\\nb\"}"), "control character"),
            (json(&long), "longer than 4095 bytes"),
            (json("{\"path\":\"/a\"}"), "unknown field `path`"),
            (json("/opt/titan"), "expected value"),
            (named(None, "application/yaml", "{}"), "application/json"),
            (named(Some("program=/a"), "", ""), "no parameters"),
        ] {
            let error = outcome.unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
