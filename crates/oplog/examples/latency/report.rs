//! The page of a run.

use crate::processor;
use crate::rounds::Length;

/// Gathers rows, and prints them at the end.
pub(crate) struct Report {
    length: Length,
    load_before: String,
    bars: Vec<String>,
    sections: Vec<Section>,
}

/// A table of details.
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) head: &'static str,
    pub(crate) rows: Vec<String>,
}

/// What is to be met.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    AtMost(f64, &'static str),
    AtLeast(f64, &'static str),
}

impl Report {
    pub(crate) fn new(length: Length) -> Self {
        Self { length, load_before: processor::load(), bars: Vec::new(), sections: Vec::new() }
    }

    /// A bar and what was measured; the text is shown, the value decides.
    pub(crate) fn bar(&mut self, what: &str, bar: Bar, value: f64, shown: &str) {
        let is_met = match bar {
            Bar::AtMost(most, _) => value <= most,
            Bar::AtLeast(least, _) => value >= least,
        };
        let wanted = match bar {
            Bar::AtMost(most, unit) => format!("≤ {most} {unit}"),
            Bar::AtLeast(least, unit) => format!("≥ {least} {unit}"),
        };
        self.bar_text(what, wanted.trim_end(), is_met, shown);
    }

    /// The same, decided already.
    pub(crate) fn bar_text(&mut self, what: &str, wanted: &str, is_met: bool, shown: &str) {
        let met = if is_met { "met" } else { "**MISSED**" };
        self.bars.push(format!("| {what} | {wanted} | {shown} | {met} |"));
    }

    pub(crate) fn section(&mut self, section: Section) {
        self.sections.push(section);
    }

    pub(crate) fn print(&self) {
        let Length { rounds, seconds } = self.length;
        println!("# The change log: what was wanted, and what was measured\n");
        println!(
            "`cargo run --release -p tidewire-oplog --example latency -- --rounds {rounds} --seconds {}`\n",
            seconds.as_secs()
        );
        println!("{}", machine());
        println!(
            "Load of the machine (1, 5, 15 minutes): {} before, {} after; the run itself is part of the second.",
            self.load_before,
            processor::load()
        );
        println!(
            "Writers, both hosts and PostgreSQL share its cores. A cell is the median of {rounds} interleaved rounds, and the least and the most.\n"
        );
        println!("| what | bar | measured | |\n|---|---|---|---|");
        self.bars.iter().for_each(|row| println!("{row}"));
        for Section { title, text, head, rows } in &self.sections {
            println!("\n## {title}\n\n{text}\n");
            let columns = head.split(" | ").count();
            let numbers = "--:|".repeat(columns - 1);
            println!("| {head} |\n|---|{numbers}");
            rows.iter().for_each(|row| println!("| {row} |"));
        }
    }
}

/// What it ran on.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches(['\t', ' ', ':']);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cores} cores of {model}; PostgreSQL from Debian, on a Unix socket, `fsync = on` where nothing else is said."
    )
}
