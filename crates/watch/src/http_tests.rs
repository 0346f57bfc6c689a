use super::*;

const CONNECTIONS_MAX: usize = 4;

fn started() -> (SocketAddr, Server) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let server = listener.serve("test", CONNECTIONS_MAX, |request| Answer::plain("200 OK", &request.target));
    (address, server.unwrap())
}

/// What the server answers, up to the end of the connection.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    // A refused connection may be reset.
    let _reset = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn a_request_that_is_none_or_too_long_is_refused_and_head_has_no_body() {
    let (address, server) = started();
    for (request, status, body) in [
        ("GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK", "/a?b"),
        ("HEAD /a HTTP/1.0\r\n\r\n", "200 OK", ""),
        ("nonsense\r\n\r\n", "400 Bad Request", "400 Bad Request\n"),
    ] {
        let answer = ask(address, request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
        assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, body, "{request}");
    }
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(HEAD_MAX_BYTES));
    assert!(ask(address, &long.as_bytes()[..HEAD_MAX_BYTES]).starts_with("HTTP/1.1 431"));
    server.end();
}

#[test]
fn clients_that_say_nothing_are_few_and_end_and_do_not_delay_the_end_of_the_server() {
    let (address, server) = started();
    let silent: Vec<TcpStream> =
        (0..CONNECTIONS_MAX + 3).map(|_| TcpStream::connect(address).unwrap()).collect();
    let closed = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(CONNECTION_TIME * 3)).unwrap();
        stream.read(&mut [0; 1]).map_or_else(
            |e| e.kind(),
            |len| match len {
                0 => io::ErrorKind::UnexpectedEof,
                _ => panic!("an answer to nothing"),
            },
        )
    };
    let began = Instant::now();
    for stream in &silent[CONNECTIONS_MAX..] {
        assert_ne!(closed(stream), io::ErrorKind::WouldBlock);
    }
    assert!(began.elapsed() < CONNECTION_TIME / 2, "surplus connections are refused at once");
    for stream in &silent[..CONNECTIONS_MAX] {
        assert_ne!(closed(stream), io::ErrorKind::WouldBlock, "the deadline ends them");
    }
    assert!(ask(address, b"GET / HTTP/1.1\r\n\r\n").contains("200 OK"), "served again afterwards");
    let _silent = TcpStream::connect(address).unwrap();
    let began = Instant::now();
    server.end();
    assert!(began.elapsed() < CONNECTION_TIME / 2);
}
