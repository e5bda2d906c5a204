//! The least an HTTP/1.1 server can do: one thread, epoll, a canned answer per head end.
//!
//! `raw-epoll [PORT [STALL_MS STALL_PERIOD_S]]` prints its address as first line. With a stall the
//! whole process sleeps for `STALL_MS` at the end of every period.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\n\
    Content-Length: 13\r\n\r\nHello, World!";
const LISTENER: u64 = u64::MAX;

struct Connection {
    fd: OwnedFd,
    /// Bytes of `\r\n\r\n` matched at the end of the input so far.
    tail: Vec<u8>,
    out: Vec<u8>,
}

fn main() -> Result<(), Errno> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("numbers"));
    let port = arguments.next().unwrap_or(0) as u16;
    let stall = Duration::from_millis(arguments.next().unwrap_or(0));
    let period = Duration::from_secs(arguments.next().unwrap_or(10));

    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let listener = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&listener, true)?;
    rustix::net::bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    rustix::net::listen(&listener, 4096)?;
    let address: std::net::SocketAddr =
        rustix::net::getsockname(&listener)?.try_into().expect("an internet address");
    println!("http://{address}/");

    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 * 1024];
    let mut next_stall = Instant::now() + period - stall;
    loop {
        let wait = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let timeout = (!stall.is_zero()).then_some(&wait);
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if !stall.is_zero() && Instant::now() >= next_stall {
            std::thread::sleep(stall);
            next_stall += period;
        }
        for event in events.drain(..) {
            let key = event.data;
            if key.u64() == LISTENER {
                accept(&listener, &epoll, &mut connections)?;
                continue;
            }
            let index = key.u64() as usize;
            let Some(connection) = &mut connections[index] else { continue };
            if !serve(connection, &mut buffer) {
                connections[index] = None;
            }
        }
    }
}

fn accept(
    listener: &OwnedFd,
    epoll: &OwnedFd,
    connections: &mut Vec<Option<Connection>>,
) -> Result<(), Errno> {
    while let Ok(fd) = rustix::net::accept_with(listener, SocketFlags::NONBLOCK) {
        sockopt::set_tcp_nodelay(&fd, true)?;
        let free = connections.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            connections.push(None);
            connections.len() - 1
        });
        let flags = EventFlags::IN | EventFlags::ET | EventFlags::RDHUP;
        epoll::add(epoll, &fd, EventData::new_u64(index as u64), flags)?;
        connections[index] = Some(Connection { fd, tail: Vec::new(), out: Vec::new() });
    }
    Ok(())
}

/// Answers everything that is there; false at the end of the connection.
fn serve(connection: &mut Connection, buffer: &mut [u8]) -> bool {
    loop {
        match rustix::net::recv(&connection.fd, &mut *buffer, RecvFlags::empty()) {
            Ok((_, 0)) => return false,
            Ok((_, count)) => {
                answer(connection, &buffer[..count]);
                if !connection.out.is_empty() && !flush(connection) {
                    return false;
                }
                if count < buffer.len() {
                    return true;
                }
            }
            Err(Errno::AGAIN) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn answer(connection: &mut Connection, input: &[u8]) {
    let mut heads = memchr::memmem::find_iter(input, b"\r\n\r\n").count();
    if !connection.tail.is_empty() {
        // A head end cut in two by the reads.
        let mut seam = std::mem::take(&mut connection.tail);
        let kept = seam.len();
        seam.extend_from_slice(&input[..input.len().min(3)]);
        heads += memchr::memmem::find_iter(&seam, b"\r\n\r\n").filter(|at| at + 4 > kept).count();
    }
    if !input.ends_with(b"\r\n\r\n") {
        connection.tail = input[input.len().saturating_sub(3)..].to_vec();
    }
    for _ in 0..heads {
        connection.out.extend_from_slice(ANSWER);
    }
}

fn flush(connection: &mut Connection) -> bool {
    let mut written = 0;
    while written < connection.out.len() {
        match rustix::net::send(&connection.fd, &connection.out[written..], SendFlags::NOSIGNAL) {
            Ok(count) => written += count,
            Err(Errno::AGAIN) => std::thread::yield_now(),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    connection.out.clear();
    true
}
