//! The least an HTTP/1.1 server can do: one thread, epoll, a canned answer per head end.
//!
//! `raw-epoll [PORT [STALL_MS STALL_PERIOD_S [DELAY_US [LOG]]]]` prints its address as first line.
//!
//! - With a stall the whole process sleeps for `STALL_MS` at the end of every period.
//! - With a delay each answer leaves `DELAY_US` after its request came, whatever else is under way.
//! - With a log, the file says when the process stalled and when each request came and was
//!   answered, in nanoseconds of the monotonic clock; it is written whenever the last connection
//!   closes.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::time::{ClockId, clock_gettime};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\n\
    Content-Length: 13\r\n\r\nHello, World!";
const LISTENER: u64 = u64::MAX;

/// Timers wake late, so the end of a wait is spent awake.
const AWAKE: u64 = 60_000;

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What happened when, if anybody wants to know.
#[derive(Default)]
struct Log {
    path: Option<String>,
    text: String,
}

impl Log {
    fn note(&mut self, what: &str, from: u64, to: u64) {
        if self.path.is_some() {
            let _ = writeln!(self.text, "{what} {from} {to}");
        }
    }

    fn write(&mut self) {
        if let Some(path) = &self.path {
            std::fs::write(path, &self.text).expect("the log can be written");
        }
    }
}

/// A request whose answer is not due yet.
struct Delayed {
    connection: usize,
    came: u64,
}

struct Connection {
    fd: OwnedFd,
    /// Bytes of `\r\n\r\n` matched at the end of the input so far.
    tail: Vec<u8>,
    out: Vec<u8>,
}

struct Server {
    connections: Vec<Option<Connection>>,
    delay: u64,
    delayed: VecDeque<Delayed>,
    log: Log,
}

fn main() -> Result<(), Errno> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, usual: u64| {
        arguments.get(index).map_or(usual, |text| text.parse().expect("a number"))
    };
    let port = number(0, 0) as u16;
    let stall = number(1, 0) * 1_000_000;
    let period = number(2, 10) * 1_000_000_000;

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
    let mut server = Server {
        connections: Vec::new(),
        delay: number(3, 0) * 1000,
        delayed: VecDeque::new(),
        log: Log { path: arguments.get(4).cloned(), text: String::new() },
    };
    let mut events: Vec<Event> = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 * 1024];
    let mut next_stall = now() + period - stall;
    loop {
        let timeout = server.timeout(stall > 0);
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if stall > 0 && now() >= next_stall {
            let began = now();
            std::thread::sleep(Duration::from_nanos(stall));
            server.log.note("stall", began, now());
            next_stall += period;
        }
        for event in events.drain(..) {
            let key = event.data;
            if key.u64() == LISTENER {
                accept(&listener, &epoll, &mut server.connections)?;
                continue;
            }
            server.serve(key.u64() as usize, &mut buffer);
        }
        server.answer_due();
    }
}

impl Server {
    /// How long to sleep: until the next answer is due, or a look at the time for the next stall.
    fn timeout(&self, stalls: bool) -> Option<rustix::fs::Timespec> {
        const LOOK: i64 = 50_000_000;
        let timespec = |tv_nsec| rustix::fs::Timespec { tv_sec: 0, tv_nsec };
        let Some(next) = self.delayed.front() else { return stalls.then(|| timespec(LOOK)) };
        let wait = (next.came + self.delay).saturating_sub(now() + AWAKE);
        Some(timespec((wait as i64).min(LOOK)))
    }

    /// Takes what came on a connection, and answers it unless answers are delayed.
    fn serve(&mut self, index: usize, buffer: &mut [u8]) {
        let Some(connection) = &mut self.connections[index] else { return };
        let Some(heads) = take(connection, buffer) else {
            self.connections[index] = None;
            if self.connections.iter().all(Option::is_none) {
                self.log.write();
            }
            return;
        };
        let came = if self.delay > 0 || self.log.path.is_some() { now() } else { 0 };
        if self.delay > 0 {
            self.delayed.extend((0..heads).map(|_| Delayed { connection: index, came }));
        } else if heads > 0 {
            self.answer(index, heads, came);
        }
    }

    fn answer_due(&mut self) {
        while let Some(next) = self.delayed.front()
            && next.came + self.delay <= now()
        {
            let (index, came) = (next.connection, next.came);
            self.delayed.pop_front();
            self.answer(index, 1, came);
        }
    }

    fn answer(&mut self, index: usize, heads: usize, came: u64) {
        let Some(connection) = &mut self.connections[index] else { return };
        for _ in 0..heads {
            connection.out.extend_from_slice(ANSWER);
        }
        if !flush(connection) {
            self.connections[index] = None;
        } else if self.log.path.is_some() {
            for _ in 0..heads {
                self.log.note("request", came, now());
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

/// Reads everything that is there: how many requests it was, `None` at the end of the connection.
fn take(connection: &mut Connection, buffer: &mut [u8]) -> Option<usize> {
    let mut heads = 0;
    loop {
        match rustix::net::recv(&connection.fd, &mut *buffer, RecvFlags::empty()) {
            Ok((_, 0)) => return None,
            Ok((_, count)) => {
                heads += count_heads(connection, &buffer[..count]);
                if count < buffer.len() {
                    return Some(heads);
                }
            }
            Err(Errno::AGAIN) => return Some(heads),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn count_heads(connection: &mut Connection, input: &[u8]) -> usize {
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
    heads
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
