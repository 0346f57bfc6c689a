//! Standard output: text for people or JSON for programs; a reader that closes the pipe is no error.

use crate::failure::{Done, Failure};
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Where commands write their results.
pub struct Output {
    out: BufWriter<Box<dyn Write>>,
}

impl Output {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self::to(Box::new(io::stdout()))
    }

    /// An output to any writer.
    #[must_use]
    pub fn to(out: Box<dyn Write>) -> Self {
        Self { out: BufWriter::new(out) }
    }

    /// Shows a result: as JSON, or as the text that `human` writes.
    ///
    /// # Errors
    /// Writing fails, except on a closed pipe.
    pub fn show(
        &mut self,
        json: bool,
        view: &impl Serialize,
        human: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Done {
        let written = if json { self.write_json(view) } else { human(&mut self.out) };
        finish(written.and_then(|()| self.out.flush()))
    }

    /// Writes text.
    ///
    /// # Errors
    /// As [`Output::show`].
    pub fn text(&mut self, human: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Done {
        finish(human(&mut self.out).and_then(|()| self.out.flush()))
    }

    fn write_json(&mut self, view: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, view).map_err(io::Error::from)?;
        writeln!(self.out)
    }
}

fn finish(written: io::Result<()>) -> Done {
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write the result: {e}")))
        }
        _ => Ok(()),
    }
}
