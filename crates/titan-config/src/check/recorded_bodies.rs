//! What routes that have bodies recorded require of the rest of the file.

use crate::diagnostic::Diagnostic;
use crate::gateway::ConfigFields;
use crate::read::Reading;

/// Whether there is a recorder for them.
pub(super) fn check_recorded_bodies(fields: &ConfigFields, to: &mut Reading<'_>) {
    if !matches!(fields.recorder, Some(None)) {
        return;
    }
    for route in fields.routes.iter().flatten().filter(|route| route.record_bodies.bytes() > 0) {
        let message = "nothing of this route's bodies is recorded";
        let warning = Diagnostic::warning(route.place, message);
        let warning = warning.label("it has `record_bodies`, and the recorder is off");
        to.add(warning.help("remove `record_bodies`, or `recorder: off`"));
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn warnings(text: &str) -> String {
        Config::parse("titan.yaml", &format!("listeners: [\":1\"]\n{text}"))
            .expect("it is valid")
            .warnings
            .to_string()
    }

    #[test]
    fn bodies_that_no_recorder_keeps_are_told() {
        let route = "routes: [{ respond: 204, record_bodies: 1KiB }]";
        assert_eq!(warnings(route), "");
        let told = warnings(&format!("recorder: off\n{route}"));
        assert!(told.contains("nothing of this route's bodies is recorded"), "{told}");
        assert_eq!(warnings("recorder: off\nroutes: [{ respond: 204 }]"), "");
    }
}
