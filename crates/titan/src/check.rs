//! `titan check`: the errors of a configuration or its summary, for people and for programs.

use crate::cli::CheckOptions;
use crate::config_file;
use crate::failure::Failure;
use crate::terminal;
use serde_json::{Value, json};
use std::process::ExitCode;
use titan_config::{Config, Diagnostic, ListedPath, ListedRoute, Location, Report, Severity};

/// The exit code for warnings with `--strict`.
pub(crate) const WARNED: u8 = 3;

/// A configuration without errors.
struct Checked {
    config: Config,
    /// The whole as it is used, where that is asked for.
    resolved: Option<String>,
    /// What there is to say of the files that it names.
    of_files: Vec<(Location, String)>,
}

/// Checks the file. Warnings do not make it invalid.
pub(crate) fn check(options: &CheckOptions) -> Result<ExitCode, Failure> {
    let name = config_file::name_of(options.file());
    let checked = Checked::read(options);
    if options.json {
        terminal::print(&format!("{:#}\n", as_json(&name, &checked, options.list_routes)))?;
        return Ok(match checked {
            Ok(checked) => checked.exit_code(options.strict),
            Err(failure) => failure.exit_code(),
        });
    }
    let checked = checked?;
    terminal::warn(&checked.config.warnings);
    for (place, warning) in &checked.of_files {
        let name = checked.config.file_names.of(*place);
        terminal::complain(&format!("warning: {name}:{place}: {warning}\n"));
    }
    if options.strict && checked.warnings() > 0 {
        terminal::complain("error: there are warnings, and `--strict` does not allow any\n");
        return Ok(checked.exit_code(options.strict));
    }
    let config = &checked.config;
    terminal::print(&match &checked.resolved {
        Some(resolved) => resolved.clone(),
        None if options.list_routes => config.mask(config.route_table().to_string()),
        None => format!("{name} is valid\n\n{}", config.mask(config.summary().to_string())),
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Checked {
    fn read(options: &CheckOptions) -> Result<Checked, Failure> {
        let file = options.file();
        let (config, resolved) = match options.resolved {
            true => {
                let resolved = config_file::resolve(file)?;
                let text = resolved.to_string();
                (resolved.config, Some(text))
            }
            false => (config_file::read(file)?, None),
        };
        if options.no_files {
            return Ok(Checked { config, resolved, of_files: Vec::new() });
        }
        let files = config_file::read_checked(&config, file)?;
        config_file::check_revocations(&config, file)?;
        let of_files = titan_proxy::warn_of_credentials(&config, &files).into_iter();
        let of_files = of_files.map(|(place, text)| (place, config.mask(text))).collect();
        Ok(Checked { config, resolved, of_files })
    }

    fn warnings(&self) -> usize {
        self.config.warnings.diagnostics().len() + self.of_files.len()
    }

    fn exit_code(&self, is_strict: bool) -> ExitCode {
        match is_strict && self.warnings() > 0 {
            true => ExitCode::from(WARNED),
            false => ExitCode::SUCCESS,
        }
    }
}

/// The shape is an interface: docs/operations.md describes it, keys are added and never change.
fn as_json(name: &str, checked: &Result<Checked, Failure>, has_routes: bool) -> Value {
    let (diagnostics, routes) = match checked {
        Ok(Checked { config, resolved: _, of_files }) => {
            let warnings = warned(config).into_iter();
            let of_files = of_files.iter().map(|(place, text)| {
                plain(config.file_names.of(*place), Severity::Warning, Some(*place), text)
            });
            let route = |it: &ListedRoute| masked(route(config, it), config);
            let routes = has_routes.then(|| config.routes_in_order().iter().map(route).collect());
            (warnings.chain(of_files).collect(), routes)
        }
        Err(failure) => (failed(name, failure), None),
    };
    let diagnostics: Vec<Value> = diagnostics;
    let routes: Option<Vec<Value>> = routes;
    let mut report = json!({ "file": name, "valid": checked.is_ok(), "diagnostics": diagnostics });
    if let Some(routes) = routes {
        report["routes"] = Value::Array(routes);
    }
    report
}

/// The warnings about a configuration.
pub(crate) fn warned(config: &Config) -> Vec<Value> {
    diagnosed(&config.warnings)
}

/// What is wrong with a configuration, or with the attempt to use it.
pub(crate) fn failed(name: &str, failure: &Failure) -> Vec<Value> {
    match failure {
        Failure::Config(report) => diagnosed(report),
        Failure::Credentials { files, faults } => {
            let fault = |(place, bad): &(Location, _)| {
                plain(files.of(*place), Severity::Error, Some(*place), &format!("{bad}"))
            };
            faults.iter().map(fault).collect()
        }
        Failure::BadInput(text) | Failure::Runtime(text) => {
            vec![plain(name, Severity::Error, None, text)]
        }
        Failure::Bind { address, what, file, error } => {
            let name = if file.is_empty() { name } else { file };
            vec![plain(name, Severity::Error, None, &format!("{address}{what}: {error}"))]
        }
    }
}

fn diagnosed(report: &Report) -> Vec<Value> {
    let diagnosed = |diagnostic: &Diagnostic| {
        let Diagnostic { severity, message, at, also: _, path, help } = diagnostic;
        let message = match at.text.as_str() {
            "" => message.clone(),
            text => format!("{message}: {text}"),
        };
        let place = at.span.start;
        let mut value = plain(report.file(place), *severity, Some(place), &message);
        value["path"] = (!path.is_empty()).then_some(path.as_str()).into();
        value["hint"] = (!help.is_empty()).then(|| help.join("; ")).into();
        value
    };
    report.diagnostics().iter().map(diagnosed).collect()
}

fn plain(name: &str, severity: Severity, place: Option<Location>, message: &str) -> Value {
    let severity = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    json!({
        "severity": severity,
        "file": name,
        "line": place.map(|place| place.line),
        "column": place.map(|place| place.column),
        "path": null,
        "message": message,
        "hint": null,
    })
}

/// The same without what was taken from files for values.
pub(crate) fn masked(value: Value, config: &Config) -> Value {
    match value {
        Value::String(text) => Value::String(config.mask(text)),
        Value::Array(items) => items.into_iter().map(|item| masked(item, config)).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (key, masked(value, config))).collect()
        }
        other => other,
    }
}

fn route(config: &Config, route: &ListedRoute) -> Value {
    let ListedRoute { name, location, host, path, methods, conditions, policies, action, target } =
        route;
    let (path, prefix) = match path {
        ListedPath::Path(path) => (Some(path), None),
        ListedPath::Prefix(prefix) => (None, Some(prefix)),
    };
    json!({
        "name": name,
        "file": config.file_names.of(*location),
        "line": location.line,
        "host": host,
        "path": path,
        "prefix": prefix,
        "methods": methods,
        "conditions": conditions,
        "policies": policies,
        "action": action,
        "target": target,
    })
}
