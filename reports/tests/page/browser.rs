//! A browser without a window, driven by its debugging protocol: messages that end in NUL, through
//! the descriptors 3 and 4.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// The browser, as Debian calls it.
const PROGRAM: &str = "chromium-headless-shell";

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    next: u64,
    /// What it told without being asked.
    pub(crate) events: Vec<Value>,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// Starts one that shows a file.
    pub(crate) fn open(file: &Path) -> Browser {
        let folder = tempfile::tempdir().expect("a folder");
        // The shell gives it the descriptors that it wants. Nothing but our page is opened: it
        // needs no sandbox, which root could not have.
        let script = format!(
            "exec {PROGRAM} --no-sandbox --disable-gpu --disable-dev-shm-usage \
             --user-data-dir=\"$0\" --remote-debugging-pipe about:blank \
             3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("the shell runs");
        let to = child.stdin.take().expect("is piped");
        let from = BufReader::new(child.stdout.take().expect("is piped"));
        let mut browser = Browser {
            child,
            to,
            from,
            session: None,
            next: 0,
            events: Vec::new(),
            _folder: folder,
        };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser.width(1280);
        let url = format!("file://{}", file.display());
        browser.ask("Page.navigate", json!({ "url": url }));
        browser.wait_for("Page.loadEventFired");
        browser
    }

    /// The answer to a command.
    pub(crate) fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let written = write!(self.to, "{message}\0").and_then(|()| self.to.flush());
        written
            .unwrap_or_else(|error| panic!("{PROGRAM}: {error}; `cargo xtask setup` installs it"));
        loop {
            let mut answer = self.read();
            if answer["id"] == json!(id) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("can be read");
        assert_eq!(
            bytes.pop(),
            Some(0),
            "{PROGRAM} ended; `cargo xtask setup` installs it"
        );
        serde_json::from_slice(&bytes).expect("messages are JSON")
    }

    fn wait_for(&mut self, event: &str) {
        while !self.events.iter().any(|one| one["method"] == event) {
            let message = self.read();
            self.events.push(message);
        }
    }

    /// What an expression of the page comes to, when what it began is painted.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let painted = "await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))";
        let expression = format!("(async () => {{ {painted}; return ({expression}); }})()");
        let asked = json!({
            "expression": expression,
            "returnByValue": true,
            "awaitPromise": true,
            "userGesture": true,
        });
        let mut answer = self.ask("Runtime.evaluate", asked);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    /// What an expression comes to, as text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        match self.value(expression) {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// What the page shows.
    pub(crate) fn shown(&mut self) -> String {
        self.text("document.getElementById('content').innerText")
    }

    /// Clicks the first element that a selector means and that has this text.
    pub(crate) fn click(&mut self, selector: &str, text: &str) {
        let place = self.value(&format!(
            "(() => {{ const found = [...document.querySelectorAll({})].find((one) => \
             one.textContent.includes({})); if (!found) return null; \
             found.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const box = found.getClientRects()[0]; \
             return [box.x + Math.min(box.width / 2, 20), box.y + box.height / 2]; }})()",
            json!(selector),
            json!(text),
        ));
        assert!(place.is_array(), "no {selector} with {text}");
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left",
                "clickCount": 1});
            self.ask("Input.dispatchMouseEvent", event);
        }
        self.value("null");
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowUp" => 38,
            "ArrowDown" => 40,
            _ => 0,
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code});
            self.ask("Input.dispatchKeyEvent", event);
        }
        self.value("null");
    }

    /// Types into what has the focus.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.ask("Input.insertText", json!({ "text": text }));
        self.value("null");
    }

    /// Makes the page so wide, in pixels of CSS.
    pub(crate) fn width(&mut self, width: u32) {
        let metrics = json!({"width": width, "height": 800, "deviceScaleFactor": 1,
            "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Has the reader prefer a theme.
    pub(crate) fn prefer(&mut self, theme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.ask(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
        self.value("null");
    }

    /// Goes to a view.
    pub(crate) fn go(&mut self, view: &str) {
        self.value(&format!("(location.hash = {})", json!(view)));
        self.value("null");
    }

    /// What went wrong in the page so far, and what it asked for besides itself.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_wrong = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => true,
            Some("Runtime.consoleAPICalled") => true,
            Some("Network.requestWillBeSent") => {
                event["params"]["type"] != "Document" || event["params"]["loaderId"] == ""
            }
            _ => false,
        };
        let wrong = self.events.iter().filter(is_wrong);
        wrong.map(Value::to_string).collect()
    }
}

impl Drop for Browser {
    /// Ends it with its helpers, which would save something into the folder that goes.
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).map(Pid::from_raw);
        let _ = group.map(|group| killpg(group, Signal::SIGKILL));
        let _ = self.child.wait();
    }
}
