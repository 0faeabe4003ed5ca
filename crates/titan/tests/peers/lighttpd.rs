//! lighttpd, which makes one variable of fields that differ in more than case, as what the gateway protects.

use crate::curl::{Request, curl, to};
use crate::gateway::Gateway;
use crate::place::{Folder, own_address};
use crate::program::{Program, output_of, peer};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use std::net::SocketAddr;

/// A lighttpd that runs a CGI program, which responds with the variables that it was started with.
struct Lighttpd {
    _program: Program,
    address: SocketAddr,
    _folder: Folder,
}

/// A shell would drop variables that are there twice, so that this looks at what it got itself.
const SCRIPT: &str =
    "printf 'Content-Type: text/plain\\r\\n\\r\\n'\ntr '\\0' '\\n' < /proc/$$/environ\n";

impl Lighttpd {
    fn start() -> Lighttpd {
        let (address, folder) = (own_address(), Folder::new());
        folder.write("show.sh", SCRIPT);
        let config = format!(
            "server.modules = (\"mod_cgi\")\nserver.document-root = \"{}\"\n\
             server.bind = \"{}\"\nserver.port = {}\ncgi.assign = (\".sh\" => \"/bin/sh\")\n",
            folder.path().display(),
            address.ip(),
            address.port()
        );
        let file = folder.write("lighttpd.conf", config);
        let mut command = peer("lighttpd");
        let program = Program::start(command.arg("-D").arg("-f").arg(file), &folder);
        Lighttpd { _program: program.listens_on(address), address, _folder: folder }
    }

    /// A request that does not go through the gateway.
    fn straight(&self) -> Request {
        to(&format!("http://{}", self.address))
    }
}

/// What a program behind that URL gets of a request with these fields: its variables made of fields.
fn variables(request: Request, fields: &[&str]) -> Vec<(String, String)> {
    let fields = fields.iter().flat_map(|field| ["-H", field]);
    let response = request.args(fields).get("/show.sh");
    assert_eq!(response.status(), 200, "{response:?}");
    let lines = response.text().lines().filter_map(|line| line.split_once('='));
    lines
        .filter(|(name, _)| name.starts_with("HTTP_"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// A token of `ann`, a reader, signed with the key in that folder.
fn token(folder: &Folder) -> String {
    folder.write("key", KEY);
    let part = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let signed = format!(
        "{}.{}",
        part(br#"{"alg":"HS256"}"#),
        part(br#"{"sub":"ann","role":"reader","exp":4000000000}"#)
    );
    folder.write("signed", &signed);
    let mut command = peer("openssl");
    command.args(["dgst", "-sha256", "-hmac", KEY, "-binary", "signed"]);
    let signature = output_of(command.current_dir(folder.path()));
    format!("{signed}.{}", part(&signature))
}

/// The fields that tell the upstream who asks, and what the gateway says in them.
const TOLD: [(&str, &str); 6] = [
    ("X-Role", "reader"),
    ("X-User", "ann"),
    ("X-Forwarded-For", "127.0.0.1"),
    ("X-Forwarded-Proto", "http"),
    ("X-Real-IP", "127.0.0.1"),
    ("X-Request-Id", ""),
];

#[test]
fn clients_cannot_write_variables_that_identify_them() {
    let lighttpd = Lighttpd::start();
    let folder = Folder::new();
    let token = format!("Authorization: Bearer {}", token(&folder));
    let gateway = Gateway::start_in(
        folder,
        &format!(
            "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{{ upstream: it }}]\n\
             upstreams: {{ it: '{}' }}\napply: [t]\nforwarding: {{ x_real_ip: true }}\n\
             policies: {{ t: {{ jwt: {{ headers: {{ X-Role: role, X-User: sub }}, \
             providers: {{ algorithms: HS256, keys: {{ secret_file: key }} }} }} }} }}\n",
            lighttpd.address
        ),
    );
    let spellings = |name: &str| ["-", "_", ".", "~", "!", "|"].map(|sign| name.replace('-', sign));
    let variable = |name: &str| format!("HTTP_{}", name.replace('-', "_").to_uppercase());
    for (name, value) in TOLD {
        for spelling in spellings(name).into_iter().chain([name.to_lowercase()]) {
            let field = format!("{spelling}: evil");
            // Without the gateway the program believes it.
            let got = variables(lighttpd.straight(), &[&field]);
            assert!(got.contains(&(variable(name), "evil".to_owned())), "{spelling}: {got:?}");
            let got = variables(curl(&gateway), &[&field, &token]);
            assert!(got.iter().all(|(_, value)| value != "evil"), "{spelling}: {got:?}");
            let told: Vec<_> = got.iter().filter(|(it, _)| *it == variable(name)).collect();
            assert_eq!(told.len(), 1, "{spelling}: {got:?}");
            assert!(value.is_empty() || told[0].1 == value, "{spelling}: {got:?}");
        }
    }
}
