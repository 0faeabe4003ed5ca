//! nginx as the service that decides about requests, and as another reader of a file with passwords.

use crate::curl::curl;
use crate::gateway::Gateway;
use crate::nginx::Nginx;
use crate::place::Folder;

/// Of `secret`, made by the C library.
const USERS: &[u8] = b"eve:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

const LOCATIONS: &str = r#"
location = /verify {
  if ($http_x_forwarded_uri ~ ^/open) { add_header X-User eve; return 204; }
  add_header WWW-Authenticate 'Form at="/login"' always;
  return 401 'sign in';
}
location = /files/password { auth_basic staff; auth_basic_user_file PATH/files/users; }
location / { return 200 "$request_method $http_x_user"; }"#;

/// A gateway to nginx under that policy, in a folder with the file of users.
fn under(nginx: &Nginx, authorise: &str) -> Gateway {
    let folder = Folder::new();
    folder.write("users", USERS);
    let text = format!(
        "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{{ upstream: it }}]\n\
         upstreams: {{ it: '{}' }}\napply: [p]\npolicies: {{ p: {{ authorise: {{ {authorise} }} }} }}\n",
        nginx.address
    );
    Gateway::start_in(folder, &text)
}

#[test]
fn nginx_decides_about_requests() {
    let nginx = Nginx::start(LOCATIONS);
    let gateway =
        under(&nginx, "forward_auth: { upstream: it, path: /verify, upstream_headers: X-User }");
    for _ in 0..3 {
        let response = curl(&gateway).args(["-H", "X-User: root", "-d", "a=b"]).get("/open?a");
        assert_eq!((response.status(), response.body.as_slice()), (200, &b"POST eve"[..]));
        let response = curl(&gateway).args(["-d", "a=b"]).get("/shut");
        assert_eq!((response.status(), response.body.as_slice()), (401, &b"sign in"[..]));
        assert_eq!(response.field("WWW-Authenticate").as_deref(), Some("Form at=\"/login\""));
    }
}

#[test]
fn nginx_and_the_gateway_read_one_file_of_passwords() {
    let nginx = Nginx::start(LOCATIONS);
    nginx.file("users", USERS);
    nginx.file("password", b"let in");
    let both = [
        under(&nginx, "forward_auth: { upstream: it, path: /files/password }"),
        under(&nginx, "basic: { file: users }"),
    ];
    for gateway in &both {
        for (who, status) in [("eve:secret", 200), ("eve:Secret", 401), ("bob:secret", 401)] {
            assert_eq!(curl(gateway).args(["-u", who]).get("/").status(), status, "{who}");
        }
        let response = curl(gateway).get("/");
        let challenge = response.field("WWW-Authenticate").unwrap_or_default();
        assert!(response.status() == 401 && challenge.starts_with("Basic realm="), "{challenge}");
    }
}
