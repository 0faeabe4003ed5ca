//! Sessions, with time that the test says.

use super::sessions::Sessions;
use super::*;
use std::time::Duration;
use titan_http::Fields;

const TOKENS: &str = "{ listeners: [127.0.0.1:0], routes: [{ respond: 200 }], admin: { tokens: { \
    ci: { sha256: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, rights: full }, \
    board: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb } } }";

fn tokens(text: &str) -> Vec<AdminToken> {
    Config::parse("test", text).unwrap().admin.unwrap().tokens
}

fn cookies(lines: &[&str]) -> Fields {
    let mut fields = Fields::default();
    lines.iter().for_each(|line| fields.append(FieldName::Cookie, line.as_bytes()).unwrap());
    fields
}

fn cookie(key: &str) -> Fields {
    cookies(&[&format!("a=b; {COOKIE}={key}; c=d")])
}

#[test]
fn a_session_lasts_while_it_is_used_and_not_for_ever() {
    let (sessions, tokens, start) = (Sessions::default(), tokens(TOKENS), Instant::now());
    let (begun, key) = sessions.begin(&tokens[0], start).unwrap();
    let hours = |hours: u64| start + Duration::from_secs(hours * 3600);
    let minutes = |minutes: u64| start + Duration::from_secs(minutes * 60);
    let finds = |at| sessions.find(&cookie(&key), &tokens, (at, Use::Counts));
    for at in 1..=12 {
        assert_eq!(finds(minutes(59 * at)).unwrap().csrf, begun.csrf, "{at}");
    }
    assert!(finds(hours(12) - Duration::from_secs(1)).is_some());
    assert!(finds(hours(12)).is_none());
    let (_, key) = sessions.begin(&tokens[0], start).unwrap();
    assert!(
        sessions.find(&cookie(&key), &tokens, (hours(1), Use::Counts)).is_none(),
        "nobody has used it"
    );
    let (_, key) = sessions.begin(&tokens[0], start).unwrap();
    let goes_on = |at| sessions.find(&cookie(&key), &tokens, (at, Use::IsNone)).is_some();
    assert!(goes_on(minutes(59)) && !goes_on(hours(1)), "a stream is no use");
}

#[test]
fn a_session_ends_with_its_token_and_when_it_is_ended() {
    let (sessions, tokens, now) = (Sessions::default(), tokens(TOKENS), Instant::now());
    let [ci, board] = [0, 1].map(|place| sessions.begin(&tokens[place], now).unwrap().1);
    let finds =
        |key: &str, tokens: &[AdminToken]| sessions.find(&cookie(key), tokens, (now, Use::Counts));
    assert_eq!(finds(&ci, &tokens).unwrap().token, tokens[0]);
    let changed = self::tokens(&TOKENS.replace("rights: full", "rights: read"));
    assert!(finds(&ci, &changed).is_none() && finds(&board, &changed).is_some());
    assert!(finds(&ci, &tokens).is_none(), "it does not come back with its token");
    sessions.end(&cookie(&board));
    assert!(finds(&board, &tokens).is_none());
}

#[test]
fn keys_are_secrets_and_one_request_has_one() {
    let (sessions, tokens, now) = (Sessions::default(), tokens(TOKENS), Instant::now());
    let (first, key) = sessions.begin(&tokens[0], now).unwrap();
    let (second, other) = sessions.begin(&tokens[0], now).unwrap();
    assert!(key.len() == 64 && key != other && first.csrf != second.csrf && key != first.csrf);
    let finds = |fields: &Fields| sessions.find(fields, &tokens, (now, Use::Counts)).is_some();
    let (key, other) = (format!("{COOKIE}={key}"), format!("{COOKIE}={other}"));
    assert!(finds(&cookies(&[&key])));
    for lines in [
        &[key.as_str(), &other][..],
        &[&format!("{key}; {other}")],
        &[&format!("x{key}")],
        &[&key.to_uppercase()],
        &[&key[..key.len() - 1]],
        &[&format!("{COOKIE}=")],
        &["titan_session"],
        &[],
    ] {
        assert!(!finds(&cookies(lines)), "{lines:?}");
    }
}

#[test]
fn the_oldest_of_whoever_has_the_most_ends_for_another_one() {
    let (sessions, tokens, now) = (Sessions::default(), tokens(TOKENS), Instant::now());
    let begin = |place: usize| sessions.begin(&tokens[place], now).unwrap().1;
    let quiet = begin(1);
    let many: Vec<_> = (0..1000).map(|_| begin(0)).collect();
    let alive = |key: &str| sessions.find(&cookie(key), &tokens, (now, Use::Counts)).is_some();
    assert!(alive(&quiet), "somebody else's");
    let alive: Vec<_> = many.iter().map(|key| alive(key)).collect();
    assert_eq!(alive.iter().filter(|it| **it).count(), 255);
    assert!(alive[1000 - 255..].iter().all(|it| *it), "the latest ones");
}
