use super::*;
use crate::samples::{Sample, tick, tracker};
use crate::tick::Tick;
use std::io::Write;
use std::net::TcpStream;

fn state(second: u64, name: &str) -> State {
    let mut state = State::default();
    let mut tick =
        Tick { map: tracker(0).since(0, second as i64), ..tick(&Sample { second, ..Sample::default() }) };
    tick.volume.name = name.to_owned();
    tick.damage = vec![name.to_owned()];
    state.add(tick).unwrap();
    state
}

/// A server that runs, and its address and token.
fn server() -> (Server, SocketAddr, String) {
    let mut server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    server.start().unwrap();
    let address = server.address;
    let token = server.token.clone();
    (server, address, token)
}

fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: SocketAddr, path: &str) -> String {
    raw(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
}

#[test]
fn nothing_is_served_without_the_token() {
    let (server, address, token) = server();
    server.publish(&state(1, "/mnt"));
    let other = "0".repeat(token.len());
    let last = if token.ends_with('0') { '1' } else { '0' };
    let nearly = format!("{}{last}", &token[..token.len() - 1]);
    for path in [
        "/",
        "/frames",
        "/frames?since=0",
        &format!("/{other}/"),
        &format!("/{nearly}/frames"),
        &format!("/{token}"),
        "//",
        "*",
    ] {
        let answer = get(address, path);
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
        assert!(!answer.contains("/mnt"));
    }
    assert!(get(address, &format!("/{token}/")).starts_with("HTTP/1.1 200 OK"));
    assert!(get(address, &format!("/{token}/frames")).contains("/mnt"));
    assert!(server.url().ends_with(&format!("/{token}/")));
}

#[test]
fn only_get_is_answered_and_nonsense_is_refused() {
    let (_server, address, token) = server();
    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"] {
        let answer =
            raw(address, &format!("{method} /{token}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
    }
    assert!(raw(address, "\u{1}\u{2}\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

#[test]
fn the_page_asks_nobody_else_and_its_script_is_the_only_one() {
    let (_server, address, token) = server();
    let (first, second) = (get(address, &format!("/{token}/")), get(address, &format!("/{token}/")));
    let (head, body) = first.split_once("\r\n\r\n").unwrap();
    for field in [
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Cache-Control: no-store",
    ] {
        assert!(head.contains(field), "{field}: {head}");
    }
    assert!(!head.contains("unsafe"));
    for outside in ["src=", "<link", "@import", "url(", "innerHTML", "eval(", "https://", "document.write"] {
        assert!(!body.contains(outside), "{outside}");
    }
    assert_ne!(first, second, "each page has a nonce of its own");
    assert!(!body.contains("{nonce}") && !body.contains("{data}") && !body.contains("{policy}"));
}

#[test]
fn names_from_the_volume_are_data_and_never_markup() {
    let attack = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;";
    let mut mailed = Mailed::default();
    mailed.add(&state(1, attack));
    let page = mailed.page().unwrap();
    assert!(!page.contains("alert(1)</script>") && !page.contains("<img"), "markup came through");
    let data = page.split_once("id=\"data\"").unwrap().1.split_once('>').unwrap().1;
    let data = data.split_once("</script>").unwrap().0;
    let frames: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(frames[0]["volume"]["name"], attack, "as text it is all there");
    let (server, address, token) = server();
    server.publish(&state(1, attack));
    let answer = get(address, &format!("/{token}/frames"));
    assert!(answer.contains("Content-Type: application/json\r\n"), "no browser takes it for a page");
}

#[test]
fn a_page_gets_the_whole_map_first_and_then_what_changed() {
    let (server, address, token) = server();
    let frames = |since: &str| -> Vec<serde_json::Value> {
        let answer = get(address, &format!("/{token}/frames{since}"));
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    assert_eq!(frames("").len(), 0, "nothing was published yet");
    for second in 1..=700 {
        server.publish(&state(second, "/mnt"));
    }
    let first = frames("?since=0");
    assert_eq!((first.len(), &first[0]["serial"], &first[0]["map"]["from"]), (1, &700.into(), &0.into()));
    assert!(first[0]["map"]["changes"].as_str().unwrap().len() > 1000);
    assert_eq!(frames("?since=700").len(), 0);
    let later = frames("?since=690");
    assert_eq!(
        (later.len(), &later[0]["serial"], later[0]["map"]["changes"].as_str()),
        (10, &691.into(), Some(""))
    );
    assert_eq!(frames("?since=5")[0]["serial"], 700, "forgotten: it begins anew");
    assert_eq!(frames("?since=9999")[0]["map"]["from"], 0, "of another server");
    assert_eq!(frames("?since=101").len(), ANSWER_FRAMES);
}

#[test]
fn a_mailed_page_is_bounded() {
    let mut mailed = Mailed::default();
    assert!(mailed.is_empty());
    let state = state(1, "/mnt");
    let more = (0..MAILED_FRAMES + 10).filter(|_| mailed.add(&state)).count();
    assert_eq!((more, mailed.len()), (MAILED_FRAMES - 1, MAILED_FRAMES));
}
