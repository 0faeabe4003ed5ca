//! HTTP/2 with a client of others: messages go both ways between the h2 crate and Titan's server, as a script says.

mod client;
mod script;
mod server;

use client::ask;
use script::{Outcome, Script};
use server::Server;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::duplex;
use tokio::task::JoinSet;

/// Time passes only when nothing else can happen: whoever waits then waits for ever.
const STUCK: Duration = Duration::from_secs(60);

/// Each message comes out as it went in, unless one side gives it up; then the other one is told so, and the rest goes on.
pub fn h2_exchanges(data: &[u8]) {
    let script = Arc::new(Script::of(data));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("it needs no resources");
    runtime.block_on(async {
        let played = tokio::time::timeout(STUCK, play(script)).await;
        played.expect("a connection stands still");
    });
}

async fn play(script: Arc<Script>) {
    let (near, far) = duplex(script.buffer);
    let serving = tokio::spawn(Server::new(&script).serve(far));
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(script.window)
        .header_table_size(script.table)
        .max_frame_size(script.frame)
        .initial_max_send_streams(script.limits().streams as usize);
    let (sender, connection) = builder.handshake(near).await.expect("Titan takes its preface");
    let connection = tokio::spawn(connection);
    let mut asking = JoinSet::new();
    for place in 0..script.exchanges.len() {
        asking.spawn({
            let (sender, script) = (sender.clone(), Arc::clone(&script));
            async move { (place, ask(sender, &script.exchanges[place], place).await) }
        });
        if script.exchanges[place].is_awaited {
            judge_next(&mut asking, &script).await;
        }
    }
    while !asking.is_empty() {
        judge_next(&mut asking, &script).await;
    }
    drop(sender);
    connection.await.expect("it does not panic").expect("nobody has broken a rule");
    let seen = serving.await.expect("it does not panic");
    for (exchange, seen) in script.exchanges.iter().zip(&seen) {
        exchange.judge_request(seen.as_ref());
    }
}

async fn judge_next(asking: &mut JoinSet<(usize, Outcome)>, script: &Script) {
    let Some(asked) = asking.join_next().await else { return };
    let (place, outcome) = asked.expect("it does not panic");
    script.exchanges[place].judge_response(&outcome);
}
