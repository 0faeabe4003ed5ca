//! Which sections a run has, by which commands, and how long each may take.

use std::time::Duration;

use crate::section::Section;

/// How much there is to do.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// A look at everything that takes minutes.
    Short,
    Full,
    /// As full, but so many hours for the elastic sections together.
    Hours(f64),
}

/// A section in this run.
#[derive(Debug)]
pub struct Task<'a> {
    pub section: &'a Section<'a>,
    pub command: String,
    pub budget: Duration,
}

/// The tasks of a run: those of the chosen sections, or of all.
pub fn plan<'a>(
    sections: &'a [Section<'a>],
    extent: Extent,
    only: &[String],
) -> Result<Vec<Task<'a>>, String> {
    if let Some(bad) = sections.iter().find(|section| !is_name(section.id)) {
        return Err(format!("`{}` is no name for a section: letters, digits and hyphens", bad.id));
    }
    if let Some(unknown) = only.iter().find(|id| !sections.iter().any(|it| it.id == **id)) {
        let ids: Vec<_> = sections.iter().map(|section| section.id).collect();
        return Err(format!("there is no section `{unknown}`, but {}", ids.join(", ")));
    }
    let is_chosen = |section: &&Section<'_>| match only.is_empty() {
        true => section.budget.0 > 0 || !matches!(extent, Extent::Short),
        false => only.iter().any(|id| id == section.id),
    };
    let chosen: Vec<_> = sections.iter().filter(is_chosen).collect();
    let stretch = match extent {
        Extent::Short => None,
        Extent::Full => Some(1.0),
        Extent::Hours(hours) => Some(stretch(&chosen, hours)?),
    };
    chosen.into_iter().map(|section| task(section, stretch)).collect()
}

fn task<'a>(section: &'a Section<'a>, stretch: Option<f64>) -> Result<Task<'a>, String> {
    let (short, full) = section.budget;
    let seconds = match stretch {
        None if short == 0 => {
            return Err(format!("`{}` is part of a full run only: --full", section.id));
        }
        None => short as f64,
        Some(by) if section.is_elastic() => full as f64 * by,
        Some(_) => full as f64,
    };
    let budget = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    Ok(Task { section, command: section.command(stretch), budget })
}

/// How many times their full length the elastic sections get, so that they may take so many hours together.
fn stretch(chosen: &[&Section<'_>], hours: f64) -> Result<f64, String> {
    let elastic = chosen.iter().filter(|section| section.is_elastic());
    let least = elastic.map(|section| section.budget.1 as f64).sum::<f64>() / 3600.0;
    if least == 0.0 {
        return Err("more time is of no use to these sections: --full".to_owned());
    }
    match hours >= least && hours.is_finite() {
        true => Ok(hours / least),
        false => {
            Err(format!("--hours begins with {least:.1}, which a full run gives to these sections"))
        }
    }
}

fn is_name(id: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !id.is_empty() && id.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Proof;

    fn section<'a>(id: &'a str, command: &'a str, budget: (u64, u64)) -> Section<'a> {
        let proof = Proof::ExitCode;
        Section { id, title: "", command, expected: "", proof, budget, pictures: &[] }
    }

    fn sections() -> [Section<'static>; 3] {
        [
            section("lint", "make lint", (60, 600)),
            section("cluster", "make cluster", (0, 3000)),
            section("fuzz", "FUZZ_SECONDS={5|60*} make fuzz", (30, 3600)),
        ]
    }

    /// Each task as its id, command and seconds.
    fn planned(extent: Extent, only: &[&str]) -> Result<Vec<(String, String, u64)>, String> {
        let only: Vec<_> = only.iter().map(|id| (*id).to_owned()).collect();
        let sections = sections();
        let tasks = plan(&sections, extent, &only)?;
        let told =
            |task: Task<'_>| (task.section.id.to_owned(), task.command, task.budget.as_secs());
        Ok(tasks.into_iter().map(told).collect())
    }

    fn row(id: &str, command: &str, seconds: u64) -> (String, String, u64) {
        (id.to_owned(), command.to_owned(), seconds)
    }

    #[test]
    fn a_short_run_leaves_out_what_takes_long() {
        let wanted = [row("lint", "make lint", 60), row("fuzz", "FUZZ_SECONDS=5 make fuzz", 30)];
        assert_eq!(planned(Extent::Short, &[]).unwrap(), wanted);
        let refused = planned(Extent::Short, &["cluster"]).unwrap_err();
        assert_eq!(refused, "`cluster` is part of a full run only: --full");
    }

    #[test]
    fn hours_are_for_what_is_elastic() {
        let fixed = [row("lint", "make lint", 600), row("cluster", "make cluster", 3000)];
        let full = planned(Extent::Full, &[]).unwrap();
        assert_eq!(full[..2], fixed);
        assert_eq!(full[2], row("fuzz", "FUZZ_SECONDS=60 make fuzz", 3600));
        let hours = planned(Extent::Hours(3.0), &[]).unwrap();
        assert_eq!(hours[..2], fixed);
        assert_eq!(hours[2], row("fuzz", "FUZZ_SECONDS=180 make fuzz", 3 * 3600));
    }

    #[test]
    fn too_few_hours_are_refused_and_so_are_some_for_what_is_not_elastic() {
        let refused = "--hours begins with 1.0, which a full run gives to these sections";
        for hours in [0.9, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(planned(Extent::Hours(hours), &[]).unwrap_err(), refused, "{hours}");
        }
        assert!(planned(Extent::Hours(9.0), &["lint"]).is_err());
        assert!(planned(Extent::Hours(1e300), &[]).is_err());
    }

    #[test]
    fn an_unknown_section_is_refused() {
        let refused = planned(Extent::Full, &["lint", "lnt"]).unwrap_err();
        assert_eq!(refused, "there is no section `lnt`, but lint, cluster, fuzz");
    }

    #[test]
    fn the_name_of_a_section_is_no_path() {
        for id in ["", "..", "a/b"] {
            let sections = [section(id, "true", (1, 1))];
            assert!(plan(&sections, Extent::Full, &[]).is_err(), "{id:?}");
        }
    }
}
