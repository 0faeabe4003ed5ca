//! Where documents are written to: the URL and the options of the command line, as a source of a configuration. So whatever is wrong with
//! them, and how TLS and passwords are treated, is as in a file.

use crate::cli::PublishOptions;
use crate::failure::Failure;
use serde_json::{Value, json};
use std::path::{self, Path};

/// What the source is called in that configuration.
pub(super) const SOURCE: &str = "to";
/// Where the password is, unless a file has it.
const PASSWORD: &str = "TITAN_ETCD_PASSWORD";
/// What keys begin with, unless the URL says so.
const PREFIX: &str = "/titan/";

/// The configuration with that source alone.
pub(super) fn configuration(to: &str, options: &PublishOptions) -> Result<String, Failure> {
    let PublishOptions { user, password_file, ca, .. } = options;
    let (scheme, rest) = to.split_once("://").unwrap_or_default();
    let scheme = match scheme {
        "etcd" => "http",
        "etcds" => "https",
        _ => {
            let what =
                "--to: expected etcd://HOST:PORT/PREFIX, or etcds://HOST:PORT/PREFIX with TLS";
            return Err(Failure::BadInput(what.to_owned()));
        }
    };
    if rest.contains('@') {
        let what = "--to: a user does not belong here: see --user and --password-file";
        return Err(Failure::BadInput(what.to_owned()));
    }
    let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let endpoints: Vec<_> =
        members.split(',').map(|it| literal(&format!("{scheme}://{it}"))).collect();
    let mut etcd = json!({ "endpoints": endpoints, "prefix": literal(&prefix_of(prefix)) });
    if let Some(user) = user {
        etcd["username"] = literal(user).into();
        etcd["password"] = match password_file {
            Some(file) => format!("${{file:{}}}", absolute(file)?).into(),
            None => format!("${{{PASSWORD}}}").into(),
        };
    }
    if let Some(ca) = ca {
        etcd["tls"] = json!({ "ca": literal(&absolute(ca)?) });
    }
    let source: Value = json!({ "etcd": etcd });
    Ok(json!({ "sources": { SOURCE: source } }).to_string())
}

fn prefix_of(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => PREFIX.to_owned(),
        path => format!("/{path}/"),
    }
}

/// A path that stays what it is wherever the configuration is.
fn absolute(file: &Path) -> Result<String, Failure> {
    let bad = |why: &str| Failure::BadInput(format!("{}: {why}", file.display()));
    let path = path::absolute(file).map_err(|error| bad(&error.to_string()))?;
    path.to_str().map(str::to_owned).ok_or_else(|| bad("the path is not UTF-8"))
}

/// A text in which nothing stands for a variable.
fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(to: &str) -> String {
        let options = PublishOptions {
            to: None,
            prune: false,
            dry_run: false,
            user: Some("me".to_owned()),
            password_file: None,
            ca: Some("/ca.pem".into()),
        };
        match configuration(to, &options) {
            Ok(text) => text,
            Err(failure) => failure.text(false),
        }
    }

    #[test]
    fn a_url_is_a_source() {
        assert_eq!(
            configured("etcds://a:2379,b:2379/titan/edge"),
            [
                r#"{"sources":{"to":{"etcd":{"endpoints":["https://a:2379","https://b:2379"],"#,
                r#""password":"${TITAN_ETCD_PASSWORD}","prefix":"/titan/edge/","#,
                r#""tls":{"ca":"/ca.pem"},"username":"me"}}}}"#,
            ]
            .concat()
        );
        assert!(configured("etcd://a:2379").contains(r#""prefix":"/titan/""#));
        assert!(configured("http://a:2379").contains("expected etcd://HOST:PORT/PREFIX"));
        let exposed = configured("etcd://me:secret@a:2379/titan");
        assert!(exposed.contains("see --user") && !exposed.contains("secret"), "{exposed}");
    }
}
