//! Tokens that PyJWT has signed, with keys that `cryptography` has made.

use crate::curl::curl;
use crate::gateway::Gateway;
use crate::place::Folder;
use crate::program::{output_of, python};
use std::collections::BTreeMap;

/// By algorithm: a valid token, and one that another key has signed.
type Tokens = BTreeMap<String, [String; 2]>;

fn sign(folder: &Folder) -> Tokens {
    let mut command = python("jwt", "sign.py", &["jwt", "cryptography"]);
    let tokens: Tokens = serde_json::from_slice(&output_of(command.arg(folder.path()))).unwrap();
    assert_eq!(tokens.len(), 14, "one for each algorithm there is, Ed25519 under one of its names");
    tokens
}

fn gateway(folder: Folder, providers: &str) -> Gateway {
    let text = format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{{ respond: 204 }}]\napply: [p]\n\
         policies: {{ p: {{ jwt: {{ providers: {providers} }} }} }}\n"
    );
    Gateway::start_in(folder, &text)
}

fn assert_judged(gateway: &Gateway, algorithm: &str, tokens: &[String; 2]) {
    for (token, status) in tokens.iter().zip([204, 401]) {
        let field = format!("Authorization: Bearer {token}");
        let response = curl(gateway).args(["-H", &field]).get("/");
        assert_eq!(response.status(), status, "{algorithm}");
    }
}

#[test]
fn tokens_of_every_algorithm_are_judged_by_keys_in_files() {
    let folder = Folder::new();
    let tokens = sign(&folder);
    let provider = |algorithm: &String| {
        let kind = if algorithm.starts_with("HS") { "secret_file" } else { "pem" };
        format!(
            "{{ issuer: {algorithm}, audience: here, algorithms: {algorithm}, \
             keys: {{ {kind}: {algorithm}.key }} }}"
        )
    };
    let providers = tokens.keys().map(provider).collect::<Vec<_>>().join(", ");
    let gateway = gateway(folder, &format!("[{providers}]"));
    tokens.iter().for_each(|(algorithm, tokens)| assert_judged(&gateway, algorithm, tokens));
}

#[test]
fn tokens_are_judged_by_the_keys_of_a_set() {
    let folder = Folder::new();
    let mut tokens = sign(&folder);
    tokens.retain(|algorithm, _| !algorithm.starts_with("HS"));
    let algorithms = tokens.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let provider =
        format!("{{ audience: here, algorithms: [{algorithms}], keys: {{ jwks: keys.json }} }}");
    let gateway = gateway(folder, &provider);
    tokens.iter().for_each(|(algorithm, tokens)| assert_judged(&gateway, algorithm, tokens));
}
