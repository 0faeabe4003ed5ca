//! A part of the validation: what is run, what is expected of it, and how long it may take.

use serde::Deserialize;

/// One of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section<'a> {
    /// Names it in options and files: letters, digits and hyphens.
    pub id: &'a str,
    pub title: &'a str,
    /// For bash, in the root of the repository. `{a|b}` is `a` in a short run and `b` in a full one; a number with a star
    /// behind, as in `{50|1000*}`, grows with the hours that a run is given. `{raw}` is the folder for its results.
    pub command: &'a str,
    pub expected: &'a str,
    pub proof: Proof,
    /// Seconds that it may take in a short run, and in a full one. A short run leaves it out where the first is 0.
    pub budget: (u64, u64),
    /// What is drawn of its results.
    #[serde(skip)]
    pub pictures: &'static [Picture],
}

/// What its output has to show besides: what has done nothing ends well too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// The exit code is enough.
    ExitCode,
    /// A test that has passed.
    Tests,
    /// A bar that was judged.
    Bars,
}

/// A chart of a column of its results, which are CSV.
#[derive(Debug)]
pub struct Picture {
    pub title: &'static str,
    /// The columns whose values make a panel, and those that name a bar in it.
    pub panel: &'static [&'static str],
    pub bar: &'static [&'static str],
    /// The column of the figures; a row without one has no bar.
    pub value: &'static str,
    pub unit: &'static str,
}

impl Section<'_> {
    /// Whether more time is of use to it.
    pub fn is_elastic(&self) -> bool {
        self.command.contains("*}")
    }

    /// The command of a short run, or that of a full one stretched so many times.
    pub fn command(&self, stretch: Option<f64>) -> String {
        let raw = format!("\"$CARGO_TARGET_DIR/validation/raw/{}\"", self.id);
        let template = self.command.replace("{raw}", &raw);
        let mut parts = template.split('{');
        let mut command = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            match part
                .split_once('}')
                .and_then(|(choice, rest)| Some((choice.split_once('|')?, rest)))
            {
                Some(((short, full), rest)) => {
                    command += &stretch.map_or_else(|| short.to_owned(), |by| stretched(full, by));
                    command += rest;
                }
                None => {
                    command.push('{');
                    command += part;
                }
            }
        }
        command
    }
}

/// A number with a star behind, so many times; all else as it is.
fn stretched(text: &str, by: f64) -> String {
    let number = text.strip_suffix('*').and_then(|number| number.parse::<f64>().ok());
    number.map_or_else(|| text.to_owned(), |number| format!("{:.0}", number * by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_written_for_the_length_of_the_run() {
        let section = |command| Section {
            id: "a",
            title: "",
            command,
            expected: "",
            proof: Proof::ExitCode,
            budget: (1, 1),
            pictures: &[],
        };
        let rows = [
            ("make lint", None, "make lint"),
            ("N={5|100*} M={1|2} make", None, "N=5 M=1 make"),
            ("N={5|100*} M={1|2} make", Some(1.0), "N=100 M=2 make"),
            ("N={5|100*} M={1|2} make", Some(2.5), "N=250 M=2 make"),
            (
                "bench {--quick |}--results {raw}",
                None,
                "bench --quick --results \"$CARGO_TARGET_DIR/validation/raw/a\"",
            ),
            (
                "bench {--quick |}--results {raw}",
                Some(3.0),
                "bench --results \"$CARGO_TARGET_DIR/validation/raw/a\"",
            ),
            ("echo ${x} | wc", Some(1.0), "echo ${x} | wc"),
        ];
        for (command, stretch, wanted) in rows {
            assert_eq!(section(command).command(stretch), wanted);
        }
    }
}
