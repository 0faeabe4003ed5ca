//! A Docker engine of its own, with what it keeps in a temporary folder.

use crate::go;
use crate::place::Folder;
use crate::program::{Program, output_of, peer};
use crate::wait::eventually;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// An engine that runs; ended when dropped, with its containers.
pub(super) struct Engine {
    program: Program,
    folder: Folder,
    /// Networks that it has made.
    networks: Vec<String>,
}

impl Engine {
    /// One with the images `plain` and `checked`, which has a health check. Nothing where none can run, as without root or in most
    /// containers, unless `TITAN_DOCKERD=required`.
    pub(super) fn start() -> Option<Engine> {
        let folder = Folder::new();
        match Engine::launch(&folder) {
            Ok(program) => {
                let engine = Engine { program, folder, networks: Vec::new() };
                let check = "HEALTHCHECK --interval=1s --retries=1 CMD [\"/container\",\"check\"]";
                engine.import("plain", &[]);
                engine.import("checked", &["-c", check]);
                Some(engine)
            }
            Err(why) => {
                let is_required = std::env::var("TITAN_DOCKERD").is_ok_and(|it| it == "required");
                assert!(!is_required, "no engine of Docker can run here: {why}");
                eprintln!("not tested with an engine of Docker, for none can run here: {why}");
                None
            }
        }
    }

    fn launch(folder: &Folder) -> Result<Program, String> {
        let mut daemon = peer("dockerd");
        if !geteuid().is_root() {
            return Err("that needs root".to_owned());
        }
        let at = |name: &str| folder.path().join(name);
        daemon.arg("--data-root").arg(at("data")).arg("--exec-root").arg(at("exec"));
        daemon.arg("--pidfile").arg(at("pid")).arg("--host").arg(host(folder));
        daemon.args([
            "--storage-driver=vfs",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
        ]);
        daemon.args(["--shutdown-timeout=1", "--log-level=warn"]);
        let mut program = Program::start(&mut daemon, folder);
        eventually("the engine responds or has ended", || {
            if let Some(status) = program.child().try_wait().unwrap() {
                let log = std::fs::read_to_string(folder.path().join("stderr")).unwrap();
                return Some(Err(format!("{status}: {log}")));
            }
            let version = client(folder).args(["version"]).output().unwrap();
            version.status.success().then_some(Ok(()))
        })?;
        Ok(program)
    }

    fn import(&self, name: &str, options: &[&str]) {
        let archive = self.folder.path().join("image.tar");
        let built = container();
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(&archive).arg("-C").arg(built.parent().unwrap());
        output_of(tar.arg(built.file_name().unwrap()));
        let entry = ["-c", "ENTRYPOINT [\"/container\"]", "-c", "EXPOSE 8080"];
        let mut import = client(&self.folder);
        output_of(import.arg("import").args(entry).args(options).arg(&archive).arg(name));
    }

    /// Where it listens, as a source names it.
    pub(super) fn endpoint(&self) -> String {
        host(&self.folder)
    }

    /// What its own client says.
    pub(super) fn ctl(&self, command: &[&str]) -> String {
        String::from_utf8(output_of(client(&self.folder).args(command))).unwrap()
    }

    /// Makes a network in addresses that nobody else is likely to have.
    pub(super) fn network(&mut self, name: &str) {
        let number = std::process::id() % 200;
        let subnet = format!("10.{}.{number}.0/24", 213 + self.networks.len());
        self.ctl(&["network", "create", "--subnet", &subnet, name]);
        self.networks.push(name.to_owned());
    }

    /// Runs a container of that name, which responds with it.
    pub(super) fn run(&self, name: &str, image: &str, options: &[&str]) {
        let mut command = vec!["run", "--detach", "--name", name, "--hostname", name];
        command.extend(options);
        command.push(image);
        self.ctl(&command);
    }

    /// Ends it, and with it its containers.
    pub(super) fn stop(&mut self) {
        let id = i32::try_from(self.program.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
        self.program.wait();
    }

    pub(super) fn start_again(&mut self) {
        self.program = Engine::launch(&self.folder).unwrap();
    }

    fn clean_up(&self) -> Option<()> {
        let all = client(&self.folder).args(["ps", "--all", "--quiet"]).output().ok()?;
        let all = String::from_utf8(all.stdout).ok()?;
        client(&self.folder).args(["rm", "--force"]).args(all.split_whitespace()).output().ok()?;
        client(&self.folder).args(["network", "rm"]).args(&self.networks).output().ok()?;
        let id = Pid::from_raw(i32::try_from(self.program.id()).ok()?)?;
        kill_process(id, Signal::TERM).ok()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Killed, it would leave its containers and their daemon behind.
        if self.clean_up().is_some() {
            self.program.wait();
        }
    }
}

fn host(folder: &Folder) -> String {
    format!("unix://{}", folder.path().join("d.sock").display())
}

fn client(folder: &Folder) -> Command {
    let mut client = peer("docker");
    // What a user has configured elsewhere counts for nothing.
    client.env("DOCKER_CONFIG", folder.path()).env_remove("DOCKER_CONTEXT");
    client.arg("--host").arg(host(folder));
    client
}

fn container() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go::build("container"))
}
