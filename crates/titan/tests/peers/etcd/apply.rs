//! `titan apply --to`: what it writes to etcd, and what it does not.

use super::server::Etcd;
use super::{followed, route, serves};
use crate::gateway::titan;
use crate::place::{Folder, own_address};
use crate::program::output_of;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use titan_config::Config;
use titan_sources::etcd::{Change, Conflict, Unwritten};
use titan_sources::source::Source;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// What the program says: exit code, output, complaints.
type Said = (Option<i32>, String, String);

fn run(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// `titan apply --to` a place below that prefix, in a folder.
fn apply(etcd: &Etcd, prefix: &str, folder: &Path, arguments: &[&str]) -> Said {
    let to = format!("etcd://{}{prefix}", etcd.address);
    run(Command::new(titan()).current_dir(folder).args(["apply", "--to", &to]).args(arguments))
}

fn keys(etcd: &Etcd) -> Vec<String> {
    let keys = etcd.ctl(&["get", "--prefix", "--keys-only", ""]);
    keys.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn documents_are_written_changed_and_pruned() {
    let (etcd, folder) = (Etcd::start(), Folder::new());
    std::fs::create_dir_all(folder.path().join("routes/shop")).unwrap();
    folder.write("routes/shop/front.yaml", route("/front", 201));
    folder.write("routes/.front.yaml.swp", "x");
    folder.write("routes/README.md", "x");
    folder.write("a.yaml", route("/a", 201));
    let apply = |arguments: &[&str]| apply(&etcd, "/titan", folder.path(), arguments);
    let gateway = followed(&etcd, "");
    let dry = apply(&["a.yaml", "routes", "--dry-run"]);
    let wanted = "+ a.yaml (36 bytes)\n+ shop/front.yaml (40 bytes)\n".to_owned();
    assert_eq!(dry, (Some(0), wanted.clone(), String::new()));
    assert!(keys(&etcd).is_empty());
    let (code, said, complaints) = apply(&["a.yaml", "routes"]);
    assert_eq!((code, complaints.as_str()), (Some(0), ""), "{said}");
    assert_eq!(said, format!("{wanted}written at revision {}\n", etcd.revision()));
    assert_eq!(keys(&etcd), ["/titan/a.yaml", "/titan/shop/front.yaml"]);
    serves(&gateway, "/front", 201);
    assert_eq!(apply(&["a.yaml", "routes"]).1, "nothing changes\n");
    folder.write("a.yaml", route("/a", 202));
    let (code, said, _) = apply(&["a.yaml", "--prune"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("~ a.yaml (36 bytes)\n- shop/front.yaml\nwritten"), "{said}");
    assert_eq!(keys(&etcd), ["/titan/a.yaml"]);
    serves(&gateway, "/a", 202);
    serves(&gateway, "/front", 404);
}

#[test]
fn what_does_not_fit_is_not_written() {
    let (etcd, folder) = (Etcd::start(), Folder::new());
    etcd.put("/titan/theirs.yaml", "rutes: []");
    etcd.put("/titan/shop.yaml", "upstreams: { shop: '127.0.0.1:1' }");
    let apply = |arguments: &[&str]| apply(&etcd, "", folder.path(), arguments);
    folder.write("fine.yaml", "routes: [{ path: /a, upstream: shop }]");
    folder.write("bad.yaml", "routes: [{ path: /b, upstream: nobody }]");
    let (code, said, complaints) = apply(&["fine.yaml", "bad.yaml"]);
    assert_eq!((code, said.as_str()), (Some(2), ""), "{complaints}");
    assert!(complaints.contains("error: bad.yaml: 1:"), "{complaints}");
    assert!(complaints.contains("help: what the gateways' own file declares"), "{complaints}");
    assert!(complaints.contains("warning: theirs.yaml, which is there already"), "{complaints}");
    assert_eq!(keys(&etcd).len(), 2);
    // The gateways' file has that upstream.
    let main =
        "upstreams: { nobody: '127.0.0.1:2' }\nsources: { s: { etcd: 'http://127.0.0.1:1' } }\n";
    folder.write("main.yaml", main);
    let (code, said, complaints) = apply(&["fine.yaml", "bad.yaml", "--config", "main.yaml"]);
    assert_eq!(code, Some(0), "{said}{complaints}");
    assert_eq!(keys(&etcd).len(), 4);
    folder.write("no name.yaml", route("/x", 201));
    let (code, _, complaints) = apply(&["no name.yaml"]);
    assert_eq!(code, Some(2), "{complaints}");
    assert!(complaints.contains("a document is called \"no name.yaml\""), "{complaints}");
}

/// Gateways keep what they have in force, whatever it is called.
#[test]
fn what_excludes_a_document_that_is_there_is_not_written() {
    let (etcd, folder) = (Etcd::start(), Folder::new());
    etcd.put("/titan/shop.yaml", &route("/shop", 204));
    for name in ["first.yaml", "second.yaml", "then.yaml"] {
        folder.write(name, route("/shop", 201));
        let (code, _, complaints) = apply(&etcd, "", folder.path(), &[name]);
        assert_eq!(code, Some(2), "{name}: {complaints}");
        assert!(complaints.contains(&format!("error: {name}: 1:")), "{complaints}");
    }
    assert_eq!(keys(&etcd), ["/titan/shop.yaml"]);
}

#[test]
fn many_documents_take_several_transactions() {
    let (etcd, folder) = (Etcd::start(), Folder::new());
    for number in 0..250 {
        folder.write(&format!("{number}.yaml"), route(&format!("/{number}"), 201));
    }
    let all = apply(&etcd, "/titan/", folder.path(), &["."]);
    assert_eq!(all.0, Some(0), "{all:?}");
    assert!(all.1.ends_with("written at revision 4\n"), "{}", all.1);
    assert_eq!(keys(&etcd).len(), 250);
    let none = apply(&etcd, "/titan/", folder.path(), &["0.yaml", "--prune"]);
    assert_eq!((none.0, keys(&etcd).len()), (Some(0), 1), "{none:?}");
}

#[test]
fn who_may_write_is_found_out_over_tls() {
    let (folder, address) = (Folder::new(), own_address());
    let mut certify = Command::new(titan());
    output_of(certify.args(["cert", &address.ip().to_string(), "--out"]).arg(folder.path()));
    let authority = folder.path().join("ca.pem").display().to_string();
    let mut etcd = Etcd::with_tls(folder, address);
    for command in [
        &["user", "add", "root:of root"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "writer"],
        &["role", "grant-permission", "--prefix=true", "writer", "readwrite", "/titan/"],
        &["user", "add", "me:of me"],
        &["user", "grant-role", "me", "writer"],
        &["auth", "enable"],
    ] {
        etcd.ctl(command);
    }
    etcd.log_in("root:of root");
    let folder = Folder::new();
    folder.write("a.yaml", route("/a", 201));
    folder.write("password", "of me\n");
    let to = |prefix: &str| format!("etcds://{address}{prefix}");
    let apply = |prefix: &str, more: &[&str]| {
        let mut command = Command::new(titan());
        command.current_dir(folder.path()).env("TITAN_ETCD_PASSWORD", "of me");
        run(command.args(["apply", "--to", &to(prefix), "--ca", &authority, "a.yaml"]).args(more))
    };
    let (code, _, complaints) = apply("/titan", &[]);
    assert_eq!(code, Some(1), "{complaints}");
    assert!(complaints.contains("user name is empty"), "{complaints}");
    let (code, _, complaints) = apply("/other", &["--user", "me"]);
    assert_eq!(code, Some(1), "{complaints}");
    assert!(complaints.contains("permission denied"), "{complaints}");
    let (code, said, complaints) =
        apply("/titan", &["--user", "me", "--password-file", "password"]);
    assert_eq!(code, Some(0), "{said}{complaints}");
    folder.write("a.yaml", route("/a", 202));
    let (code, said, complaints) = apply("/titan", &["--user", "me"]);
    assert_eq!(code, Some(0), "{said}{complaints}");
}

#[test]
fn nothing_is_written_when_somebody_else_has_written_meanwhile() {
    let etcd = Etcd::start();
    etcd.put("/titan/a.yaml", "a");
    etcd.put("/titan/b.yaml", "b");
    let text = format!("sources: {{ s: {{ etcd: 'http://{}' }} }}", etcd.address);
    let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
    let source = Source::new(&config.sources[0], &config.resolver, &Default::default()).unwrap();
    let mut store = source.store().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let local = LocalSet::new();
    let mut write = |meanwhile: &dyn Fn(), names: &[&str]| {
        local.block_on(&runtime, async {
            let read = store.read().await.unwrap();
            meanwhile();
            let put = |name: &&str| ((*name).to_owned(), Change::Put("ours".to_owned()));
            store.write(&read, &names.iter().map(put).collect::<BTreeMap<_, _>>()).await
        })
    };
    let mut refused = |meanwhile: &dyn Fn(), names: &[&str]| {
        let Unwritten { written, why } = write(meanwhile, names).unwrap_err();
        assert_eq!(written, 0);
        match why {
            Conflict::Changed(names) => names,
            Conflict::Failed(why) => panic!("{why}"),
        }
    };
    assert_eq!(
        refused(&|| etcd.put("/titan/a.yaml", "theirs"), &["a.yaml", "new.yaml"]),
        ["a.yaml"]
    );
    // What was checked with it is another one now.
    assert_eq!(refused(&|| etcd.put("/titan/more.yaml", "theirs"), &["a.yaml"]), ["more.yaml"]);
    assert_eq!(refused(&|| etcd.delete("/titan/b.yaml"), &["b.yaml"]), ["b.yaml, which is gone"]);
    assert_eq!(keys(&etcd), ["/titan/a.yaml", "/titan/more.yaml"]);
    assert_eq!(etcd.ctl(&["get", "--print-value-only", "/titan/a.yaml"]), "theirs\n");
    // What others write elsewhere is no concern of ours.
    write(&|| etcd.put("/other/a.yaml", "theirs"), &["a.yaml"]).unwrap();
    assert_eq!(etcd.ctl(&["get", "--print-value-only", "/titan/a.yaml"]), "ours\n");
}
