//! Consul itself as a source: `make consul` builds it. What happens when it fails, or responds with less than there is, is tested with an
//! agent of our own, in `tests/consul.rs`.

use crate::client::Client;
use crate::gateway::Gateway;
use crate::place::{Folder, own_address};
use crate::program::{Program, output_of};
use crate::upstream::serve;
use crate::wait::{eventually, until};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

const TOKEN: &str = "11111111-1111-1111-1111-111111111111";

/// A server in development mode; killed when dropped.
struct Consul {
    program: Program,
    address: SocketAddr,
    folder: Folder,
}

impl Consul {
    /// One that lets nobody read anything without a token.
    fn start() -> Consul {
        let (folder, address) = (Folder::new(), own_address());
        let acl = format!(
            "acl {{ enabled = true, default_policy = \"deny\", tokens {{ initial_management = \"{TOKEN}\", agent = \"{TOKEN}\" }} }}\n"
        );
        folder.write("acl.hcl", acl);
        let program = run(address, &folder);
        let consul = Consul { program, address, folder };
        consul.is_ready();
        consul
    }

    /// Ends it as a crash would, and starts it without anything that it knew.
    fn loses_all(&mut self) {
        self.program.kill();
        self.program = run(self.address, &self.folder);
        self.is_ready();
    }

    fn is_ready(&self) {
        eventually("it has a leader", || self.try_tell(&["kv", "put", "ready", "yes"]));
    }

    /// What its own client says.
    fn told(&self, command: &[&str]) -> String {
        String::from_utf8(output_of(&mut self.client(command))).unwrap()
    }

    fn try_tell(&self, command: &[&str]) -> Option<()> {
        self.client(command).output().unwrap().status.success().then_some(())
    }

    fn client(&self, command: &[&str]) -> Command {
        let mut client = consul();
        client.env("CONSUL_HTTP_ADDR", self.address.to_string()).env("CONSUL_HTTP_TOKEN", TOKEN);
        client.args(command);
        client
    }

    fn put(&self, key: &str, text: &str) {
        self.told(&["kv", "put", key, text]);
    }

    /// Registers an instance of `shop`, whose health is for the caller to say.
    fn register(&self, id: &str, address: SocketAddr) {
        self.register_with(&[], id, address);
    }

    /// The same with tags.
    fn register_with(&self, tags: &[&str], id: &str, address: SocketAddr) {
        let check = format!("check {{ id = \"{id}\", ttl = \"1h\", status = \"passing\" }}");
        let place = format!("address = \"{}\", port = {}", address.ip(), address.port());
        let service = format!(
            "service {{ name = \"shop\", id = \"{id}\", tags = {tags:?}, {place}, {check} }}\n"
        );
        let file = self.folder.write(&format!("{id}.hcl"), service);
        self.told(&["services", "register", file.to_str().unwrap()]);
    }

    /// Says how the instance is.
    fn health(&self, id: &str, what: &str) {
        let mut client = Client::connect(self.address).unwrap();
        let request = format!(
            "PUT /v1/agent/check/{what}/{id} HTTP/1.1\r\nHost: a\r\nX-Consul-Token: {TOKEN}\r\nContent-Length: 0\r\n\r\n"
        );
        client.send(request.as_bytes()).unwrap();
        assert_eq!(client.response().unwrap().status, 200);
    }

    /// A token for those rules; the policy has its name.
    fn token(&self, name: &str, rules: &str) -> String {
        self.told(&["acl", "policy", "create", "-name", name, "-rules", rules]);
        let told = self.told(&["acl", "token", "create", "-policy-name", name]);
        let secret = told.lines().find_map(|line| line.strip_prefix("SecretID:"));
        secret.unwrap().trim().to_owned()
    }

    /// A main file with a source there.
    fn main(&self, token: &str) -> String {
        format!(
            "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes:\n- {{ path: /own, respond: 204 }}\n\
             - {{ path: /shop, upstream: shop }}\nupstreams: {{ shop: 'feed:c/shop' }}\n\
             sources: {{ c: {{ consul: {{ endpoints: ['http://{}'], interval: 1s, timeout: 2s, prefix: titan/, services: shop, \
             token: {token} }} }} }}\n",
            self.address
        )
    }
}

fn consul() -> Command {
    let program = std::env::var_os("TITAN_CONSUL");
    Command::new(program.expect("TITAN_CONSUL has to name Consul: `make consul` builds it"))
}

fn run(address: SocketAddr, folder: &Folder) -> Program {
    let mut server = consul();
    let ip = address.ip().to_string();
    server.args(["agent", "-dev", "-log-level", "error", "-bind", &ip, "-client", &ip]);
    server.args(["-http-port", &address.port().to_string(), "-dns-port", "-1"]);
    server.args(["-grpc-port", "-1", "-grpc-tls-port", "-1"]);
    // The address is its own, so its other ports are free.
    server.arg("-config-file").arg(folder.path().join("acl.hcl"));
    server.stdout(std::process::Stdio::null());
    Program::start(&mut server, folder).listens_on(address)
}

/// A server that says its name.
fn instance(name: &'static str) -> SocketAddr {
    serve(TcpListener::bind("127.0.0.1:0").unwrap(), move |_| name.to_owned())
}

fn get(gateway: &Gateway, path: &str) -> (u16, String) {
    let mut client = Client::connect(gateway.address()).unwrap();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    let response = client.response().unwrap();
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

fn route(path: &str, status: u16) -> String {
    format!("routes: [{{ path: {path}, respond: {status} }}]")
}

fn serves(gateway: &Gateway, path: &str, wanted: u16) {
    until(&format!("{path} is {wanted}"), || get(gateway, path).0 == wanted);
}

#[test]
#[ignore = "`make consul` runs it, with Consul"]
fn keys_are_served_and_followed() {
    let consul = Consul::start();
    consul.put("titan/shop/a.yaml", &route("/a", 201));
    consul.put("other/a.yaml", &route("/other", 201));
    let gateway = Gateway::start(&consul.main(TOKEN));
    serves(&gateway, "/a", 201);
    consul.put("titan/shop/a.yaml", &route("/a", 202));
    serves(&gateway, "/a", 202);
    consul.put("titan/bad.yaml", "rutes: []");
    consul.put("titan/b.yaml", &route("/b", 203));
    serves(&gateway, "/b", 203);
    until("it is told", || gateway.events().contains("source://c/bad.yaml is held back: "));
    consul.told(&["kv", "delete", "-recurse", "titan/"]);
    serves(&gateway, "/a", 404);
    assert_eq!([get(&gateway, "/b").0, get(&gateway, "/other").0], [404, 404]);
}

#[test]
#[ignore = "`make consul` runs it, with Consul"]
fn instances_are_endpoints_while_they_are_healthy() {
    let consul = Consul::start();
    let gateway = Gateway::start(&consul.main(TOKEN));
    serves(&gateway, "/shop", 503);
    consul.register("one", instance("one"));
    until("one is asked", || get(&gateway, "/shop").1 == "one");
    consul.register("two", instance("two"));
    until("two is asked", || get(&gateway, "/shop").1 == "two");
    consul.health("one", "fail");
    until("one is not asked any more", || {
        (0..8).all(|_| get(&gateway, "/shop") == (200, "two".to_owned()))
    });
    consul.told(&["services", "deregister", "-id", "two"]);
    serves(&gateway, "/shop", 503);
    consul.health("one", "pass");
    until("one is asked again", || get(&gateway, "/shop").1 == "one");
}

#[test]
#[ignore = "`make consul` runs it, with Consul"]
fn instances_may_be_those_with_certain_tags() {
    let consul = Consul::start();
    consul.register_with(&["v1"], "one", instance("one"));
    consul.register_with(&["v1", "v2/eu"], "two", instance("two"));
    let tagged = "services: [{ name: shop, tags: [v1, v2/eu], datacenter: dc1 }]";
    let gateway = Gateway::start(&consul.main(TOKEN).replace("services: shop", tagged));
    serves(&gateway, "/shop", 200);
    (0..8).for_each(|_| assert_eq!(get(&gateway, "/shop").1, "two"));
    consul.register_with(&["v1"], "two", instance("two"));
    serves(&gateway, "/shop", 503);
}

#[test]
#[ignore = "`make consul` runs it, with Consul"]
fn a_consul_that_has_lost_all_is_followed() {
    let mut consul = Consul::start();
    for number in 0..50 {
        consul.put("titan/a.yaml", &route("/a", 201 + number % 3));
    }
    let gateway = Gateway::start(&consul.main(TOKEN));
    serves(&gateway, "/a", 202);
    consul.loses_all();
    consul.put("titan/b.yaml", &route("/b", 203));
    serves(&gateway, "/b", 203);
    assert_eq!(get(&gateway, "/a").0, 404);
}

#[test]
#[ignore = "`make consul` runs it, with Consul"]
fn what_a_token_may_no_longer_read_stays_in_force() {
    let consul = Consul::start();
    consul.put("titan/a.yaml", &route("/a", 201));
    consul.register("one", instance("one"));
    let rules = "key_prefix \"titan/\" { policy = \"read\" } service \"shop\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" }";
    let token = consul.token("titan", rules);
    let gateway = Gateway::start(&consul.main(&token));
    serves(&gateway, "/a", 201);
    serves(&gateway, "/shop", 200);
    consul.told(&[
        "acl",
        "policy",
        "update",
        "-name",
        "titan",
        "-rules",
        "key_prefix \"x/\" { policy = \"read\" }",
    ]);
    until("it is told", || {
        gateway
            .events()
            .contains("the source c cannot be asked, and what is in force of it stays: ")
    });
    assert_eq!([get(&gateway, "/a").0, get(&gateway, "/shop").0], [201, 200]);
    consul.told(&["acl", "policy", "update", "-name", "titan", "-rules", rules]);
    consul.put("titan/b.yaml", &route("/b", 202));
    serves(&gateway, "/b", 202);
}
