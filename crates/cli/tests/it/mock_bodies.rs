//! Bodies of 100 MiB, through a mock and to it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::mocked::RunningMock;

/// Answers every call over Connect with this note.
fn notes(notes: &'static [usize]) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers = std::thread::spawn(move || {
        for length in notes {
            let (mut stream, _) = listener.accept().unwrap();
            let mut some = [0; 4096];
            let _ = stream.read(&mut some).unwrap();
            let mut message = vec![2 << 3 | 2];
            let mut left = *length;
            while left > 0x7f {
                message.push((left & 0x7f) as u8 | 0x80);
                left >>= 7;
            }
            message.push(left as u8);
            message.resize(message.len() + length, b'x');
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\nconnection: close";
            write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n", message.len()).unwrap();
            stream.write_all(&message).unwrap();
        }
    });
    (url, answers)
}

/// The status and the length of the body that a message of so many bytes is answered with.
fn posted(mock: &RunningMock, bytes: usize) -> (String, usize) {
    let mut stream = TcpStream::connect(&mock.address).unwrap();
    let head = "POST /shop.v1.Cart/Price HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close";
    let length = format!("content-type: application/proto\r\ncontent-length: {bytes}\r\n\r\n");
    write!(stream, "{head}\r\n{length}").unwrap();
    // Who is refused before all of it is read may find the connection closed.
    let _ = stream.write_all(&vec![0; bytes]);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let status = String::from_utf8_lossy(&answer[9..12]).into_owned();
    (status, answer.len() - end)
}

#[test]
fn a_reply_of_100_mib_passes_where_it_may_and_is_not_recorded_and_such_a_request_is_refused() {
    let (url, real) = notes(&[100 << 20, 7]);
    let more = ["--upstream", &url, "--upstream-protocol", "connect", "--record", "recorded"];
    let roomy = ["--set", "limits.message_bytes_max=101MiB"];
    let mock = RunningMock::start(&[], &[&more[..], &roomy].concat());
    assert_eq!(posted(&mock, 0), ("200".to_owned(), (100 << 20) + 5));
    let recorded = || std::fs::read_dir(mock.path().join("recorded")).unwrap().count();
    assert_eq!(recorded(), 0);
    assert_eq!(posted(&mock, 0), ("200".to_owned(), 9));
    assert_eq!(recorded(), 1);
    real.join().unwrap();
    let small = RunningMock::start(&[], &[]);
    assert_eq!(posted(&small, 100 << 20).0, "429");
    assert_eq!(posted(&small, 0).0, "200");
}
