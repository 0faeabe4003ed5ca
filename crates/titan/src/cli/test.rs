//! The options of `titan test`.

use clap::Args;
use std::path::PathBuf;

/// What to test.
#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    /// The test files, YAML or JSON
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The configuration, in place of `config` in the test files
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The end of its help.
pub(super) const HELP: &str = "\
A test file:
  config: titan.yaml            # from the directory of this file
  cases:
    - name: users need a token
      request: { url: http://a.example/users/7, from: 192.0.2.1 }
      expect: { route: users, status: 401, code: token-missing, policies: { jwt: refuses } }

`titan explain --as-test` writes such a case. `${NAME}` stands for a variable of the environment, such as a
token that is in no file.

Exit codes:
  0    everything is as expected
  1    something is not, or standard output could not be written
  2    a test file or a configuration is invalid";
