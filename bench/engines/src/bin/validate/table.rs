//! Results in CSV: what is the same in all rows is said once.

use serde::{Deserialize, Serialize};
use titan_bench::chart::{self, Bar, Panel};

use crate::section::Picture;

/// Rows of texts, each as long as the head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads CSV whose first line is the head. Quoted fields hold no line breaks.
    pub fn parse(csv: &str) -> Self {
        let mut lines = csv.lines().filter(|line| !line.is_empty()).map(fields);
        let head = lines.next().unwrap_or_default();
        let mut rows: Vec<_> = lines.collect();
        rows.iter_mut().for_each(|row| row.resize(head.len(), String::new()));
        Self { head, rows }
    }

    /// The columns in which rows differ, and those in which they do not: their names with their values. Empty ones are
    /// left out.
    pub fn simplified(&self) -> (Self, Vec<(String, String)>) {
        let mut table = Self { head: Vec::new(), rows: vec![Vec::new(); self.rows.len()] };
        let mut same = Vec::new();
        for (index, name) in self.head.iter().enumerate() {
            let first = self.rows.first().map_or("", |row| row[index].as_str());
            if self.rows.len() > 1 && self.rows.iter().all(|row| row[index] == first) {
                same.push((name.clone(), first.to_owned()));
                continue;
            }
            table.head.push(name.clone());
            for (row, of) in table.rows.iter_mut().zip(&self.rows) {
                row.push(of[index].clone());
            }
        }
        same.retain(|(_, value)| !value.is_empty());
        (table, same)
    }

    /// The chart of a column, as far as there are figures in it.
    pub fn draw(&self, picture: &Picture) -> Option<String> {
        let value = self.column(picture.value)?;
        let [panel, bar] = [picture.panel, picture.bar].map(|names| self.columns(names));
        let mut panels: Vec<Panel> = Vec::new();
        for row in &self.rows {
            let Ok(length) = row[value].parse::<f64>() else { continue };
            let label = format!("{} {}", row[value], picture.unit);
            let (title, bar) =
                (joined(row, &panel), Bar { name: joined(row, &bar), length, label });
            match panels.iter_mut().find(|panel| panel.title == title) {
                Some(panel) => panel.bars.push(bar),
                None => panels.push(Panel { title, bars: vec![bar] }),
            }
        }
        let (_, same) = self.simplified();
        let conditions: Vec<_> =
            same.iter().map(|(name, value)| format!("{name} {value}")).collect();
        (!panels.is_empty()).then(|| chart::draw(picture.title, &conditions.join(", "), &panels))
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.head.iter().position(|head| head == name)
    }

    fn columns(&self, names: &[&str]) -> Vec<usize> {
        names.iter().filter_map(|name| self.column(name)).collect()
    }
}

fn joined(row: &[String], columns: &[usize]) -> String {
    columns.iter().map(|column| row[*column].as_str()).collect::<Vec<_>>().join(", ")
}

/// The fields of a line. Commas within quotes are text, and two quotes there are one.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let (mut is_quoted, mut letters) = (false, line.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => push(&mut fields, '"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            letter => push(&mut fields, letter),
        }
    }
    fields
}

fn push(fields: &mut [String], letter: char) {
    if let Some(field) = fields.last_mut() {
        field.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "\
date,machine,scenario,engine,cost,bytes,to_floor
2026-01-31,\"Xeon, \"\"2\"\" cores\",small,nginx,2.0,,
2026-01-31,\"Xeon, \"\"2\"\" cores\",small,titan,1.0,,
2026-01-31,\"Xeon, \"\"2\"\" cores\",large,titan,8.0
";

    #[test]
    fn what_all_rows_have_is_said_once_and_what_none_has_not_at_all() {
        let (table, same) = Table::parse(CSV).simplified();
        assert_eq!(table.head, ["scenario", "engine", "cost"]);
        assert_eq!(table.rows[2], ["large", "titan", "8.0"]);
        let pairs: Vec<_> = same.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(pairs, ["date=2026-01-31", "machine=Xeon, \"2\" cores"]);
    }

    #[test]
    fn a_single_row_keeps_its_columns() {
        let (table, same) = Table::parse("a,b\n1,2\n").simplified();
        assert_eq!((table.head.len(), same.len()), (2, 0));
        assert_eq!(Table::parse(""), Table::default());
    }

    #[test]
    fn a_chart_has_a_panel_for_each_group_and_a_bar_for_each_figure() {
        let picture = |value| Picture {
            title: "Cost",
            panel: &["scenario"],
            bar: &["engine"],
            value,
            unit: "us",
        };
        let svg = Table::parse(CSV).draw(&picture("cost")).unwrap();
        for (text, times) in [(">small<", 1), (">large<", 1), (">titan<", 2), (">2.0 us<", 1)] {
            assert_eq!(svg.matches(text).count(), times, "{text} in {svg}");
        }
        // A column without figures, and one that is not there.
        assert_eq!(Table::parse(CSV).draw(&picture("bytes")), None);
        assert_eq!(Table::parse(CSV).draw(&picture("memory")), None);
    }
}
