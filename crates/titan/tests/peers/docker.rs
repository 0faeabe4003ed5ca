//! Docker as a source of the configuration: containers with labels, run by a real engine. Exchanges that no engine has are in
//! `tests/docker.rs`.

mod engine;

use crate::client::Client;
use crate::gateway::Gateway;
use crate::wait::until;
use engine::Engine;
use std::net::{IpAddr, SocketAddr};

/// What is not heard of from the engine itself is not seen within the time that a test waits.
fn followed(engine: &Engine) -> Gateway {
    let endpoint = engine.endpoint();
    Gateway::start(&format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes: [{{ path: /own, respond: 204 }}]\nstate: state\n\
         sources: {{ local: {{ docker: {{ endpoint: '{endpoint}', interval: 1h }} }} }}\n"
    ))
}

/// The status, which is 0 where none comes in time (an endpoint that has just gone takes that long), and the body.
fn get(gateway: &Gateway, path: &str) -> (u16, String) {
    let mut client = Client::connect(gateway.address()).unwrap();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    let Ok(response) = client.response() else { return (0, String::new()) };
    (response.status, String::from_utf8(response.body).unwrap())
}

fn serves(gateway: &Gateway, path: &str, name: &str) {
    until(&format!("{name} serves {path}: {}", gateway.events()), || {
        get(gateway, path) == (200, name.to_owned())
    });
}

fn responds(gateway: &Gateway, path: &str, status: u16) {
    until(&format!("{path} is {status}"), || get(gateway, path).0 == status);
}

fn tells(gateway: &Gateway, words: &str) {
    until(&format!("it tells `{words}`: {}", gateway.events()), || {
        gateway.events().contains(words)
    });
}

fn rule(router: &str, path: &str) -> String {
    format!("titan.http.routers.{router}.rule=PathPrefix(`{path}`)")
}

const ENABLE: &str = "titan.enable=true";

#[test]
fn containers_of_a_real_engine_are_served() {
    let Some(mut engine) = Engine::start() else { return };
    engine.network("web");
    engine.network("other");
    let (shop, api, lost) = (rule("shop", "/shop"), rule("api", "/api"), rule("lost", "/lost"));
    let compose = ["com.docker.compose.project=p", "com.docker.compose.service=shop"];
    let labels =
        ["--network", "web", "-l", ENABLE, "-l", &shop, "-l", compose[0], "-l", compose[1]];
    engine.run("one", "plain", &labels);
    let gateway = followed(&engine);
    serves(&gateway, "/shop", "one");

    // Another one of the same service is an endpoint, and no other configuration.
    let shown = gateway.told_by("sources");
    engine.run("two", "plain", &labels);
    serves(&gateway, "/shop", "two");
    serves(&gateway, "/shop", "one");
    let revision =
        |shown: &str| shown.lines().nth(1).unwrap().split_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(revision(&gateway.told_by("sources")), revision(&shown));
    engine.ctl(&["pause", "one"]);
    engine.ctl(&["rm", "--force", "two"]);
    responds(&gateway, "/shop", 503);
    engine.ctl(&["unpause", "one"]);
    serves(&gateway, "/shop", "one");

    // One that is not healthy yet gets no requests.
    engine.run("sick", "checked", &["--network", "web", "-l", ENABLE, "-l", &api]);
    responds(&gateway, "/api", 503);
    heal(&engine, "sick");
    serves(&gateway, "/api", "sick");

    // One that cannot be reached is refused alone, until it can.
    engine.run("both", "plain", &["--network", "web", "-l", ENABLE, "-l", &lost]);
    serves(&gateway, "/lost", "both");
    engine.ctl(&["network", "connect", "other", "both"]);
    tells(
        &gateway,
        "source://local/containers/both is held back: it is in several networks (other, web)",
    );
    responds(&gateway, "/lost", 404);
    serves(&gateway, "/shop", "one");
    engine.ctl(&["network", "disconnect", "other", "both"]);
    serves(&gateway, "/lost", "both");

    engine.ctl(&["stop", "--time", "0", "one"]);
    responds(&gateway, "/shop", 404);

    // The engine ends, and its containers with it; what is in force stays.
    engine.stop();
    tells(&gateway, "the source local cannot be asked, and what is in force of it stays: ");
    engine.start_again();
    engine.ctl(&["start", "one"]);
    serves(&gateway, "/shop", "one");
    responds(&gateway, "/lost", 404);
    tells(&gateway, "the source local can be asked again");
}

/// Has its health check succeed from now on.
fn heal(engine: &Engine, container: &str) {
    let format = "{{ .NetworkSettings.Networks.web.IPAddress }}";
    let address = engine.ctl(&["inspect", "--format", format, container]);
    let address: IpAddr = address.trim().parse().unwrap();
    let mut client = Client::connect(SocketAddr::new(address, 8080)).unwrap();
    client.send(b"GET /heal HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(client.response().unwrap().status, 200);
}
