//! Says what happens as it happens, for people or for programs.

use std::fmt;
use std::io::{self, Write};
use std::time::Instant;

use serde_json::json;

use crate::args::{Algorithm, Output};
use crate::report::Report;

/// Writes a line an event.
pub(crate) struct Teller {
    output: Output,
    out: Box<dyn Write + Send>,
    begun: Instant,
}

impl Teller {
    pub(crate) fn new(output: Output, out: impl Write + Send + 'static) -> Self {
        Self {
            output,
            out: Box::new(out),
            begun: Instant::now(),
        }
    }

    pub(crate) fn act(&mut self, algorithm: Algorithm) -> io::Result<()> {
        let about = algorithm.about();
        match self.output {
            Output::Text => self.line(format_args!("== {algorithm}: {about}")),
            Output::Json => self.line(json!({ "act": algorithm.name(), "about": about })),
        }
    }

    /// What comes next, in a sentence.
    pub(crate) fn step(&mut self, title: &str) -> io::Result<()> {
        match self.output {
            Output::Text => self.line(format_args!("\n{title}.")),
            Output::Json => self.line(json!({ "step": title })),
        }
    }

    /// `what` happened to the backend `index`.
    pub(crate) fn event(
        &mut self,
        what: &str,
        index: Option<usize>,
        text: fmt::Arguments<'_>,
    ) -> io::Result<()> {
        let seconds = self.begun.elapsed().as_secs_f64();
        match self.output {
            Output::Text => {
                let who = index.map_or_else(String::new, |index| format!("#{index} "));
                self.line(format_args!("{seconds:>8.3} s  {what:<9} {who}{text}"))
            }
            Output::Json => self.line(json!({
                "t": seconds,
                "event": what,
                "backend": index,
                "text": text.to_string(),
            })),
        }
    }

    pub(crate) fn report(&mut self, report: &Report) -> io::Result<()> {
        match self.output {
            Output::Text => self.line(format_args!("\n{report}")),
            Output::Json => self.line(report.to_json()),
        }
    }

    /// The last line.
    pub(crate) fn verdict(&mut self, good: bool) -> io::Result<()> {
        match (self.output, good) {
            (Output::Text, true) => self.line("All held."),
            (Output::Text, false) => self.line("FAILED: see above."),
            (Output::Json, good) => self.line(json!({ "good": good })),
        }
    }

    fn line(&mut self, line: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }
}
