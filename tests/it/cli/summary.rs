//! Summary that `ovms serve` logs once, after the first load.

use crate::support::{Server, cli, http::get, model, pipelines::Config, repository};

/// Returns the lines of the log after `ready`, without their times, up to the last of the summary.
fn summary(server: &Server, last: &str) -> String {
    server.wait_log(last);
    let log = server.log();
    let lines = log.lines().skip_while(|line| !line.ends_with(" ready"));
    let lines: Vec<&str> = lines
        .skip(1)
        .filter_map(|line| line.split_once(" INFO "))
        .map(|(_, text)| text)
        .collect();
    let text = lines.join("\n");
    let text = text.replace(&server.port.to_string(), "<port>");
    text.replace(&server.rest_port.to_string(), "<rest port>")
}

macro_rules! assert_reported {
    ($reported:expr, @$text:literal) => {
        insta::with_settings!({filters => [(r"OpenVINO \d[\d.]+", "OpenVINO <version>")]}, {
            insta::assert_snapshot!($reported, @$text);
        });
    };
}

#[test]
fn one_model_is_reported_with_its_addresses_and_what_to_try() {
    let server = Server::shared("dummy");
    assert_reported!(summary(server, "try: curl"), @"
    ovms 0.1.0 serves 1 model, with OpenVINO <version>
      gRPC: localhost:<port>
      REST: http://localhost:<rest port>
      dashboard: http://localhost:<rest port>/dashboard
      model: dummy, version 1 on CPU
      try: ovms infer dummy --random --url localhost:<port>
      try: curl http://localhost:<rest port>/v2/models/dummy
    ");
    let tried = cli::ovms([
        "infer",
        "dummy",
        "--random",
        &format!("--url=localhost:{}", server.port),
    ]);
    assert_eq!(tried.code, Some(0), "{}", tried.stderr);
}

#[test]
fn the_line_to_try_works_for_models_with_sequences() {
    let server = Server::start_with("vad_stateful", &["--stateful"]);
    let line = server.wait_log("try: ovms infer");
    let (_, command) = line.split_once("try: ovms ").unwrap();
    let tried = cli::ovms(command.split(' '));
    assert_eq!(tried.code, Some(0), "{command}: {}", tried.stderr);
}

#[test]
fn the_line_to_try_has_the_least_shape_of_bounded_inputs() {
    let server = Server::start("image_range");
    let line = server.wait_log("try: ovms infer");
    let (_, command) = line.split_once("try: ").unwrap();
    let program = cli::command();
    let program = program.get_program().to_str().unwrap();
    let command = command.replacen("ovms", program, 1);
    let tried = cli::run(std::process::Command::new("sh").args(["-c", &command]));
    assert_eq!(tried.code, Some(0), "{command}: {}", tried.stderr);
}

#[test]
fn many_models_are_counted_and_what_is_missing_is_reported() {
    let (folder, mut config) = (repository::folder(), Config::of(&[]));
    for number in 0..12 {
        config.model(&format!("m{number:02}"), &model("dummy"));
    }
    config.model("gone", "/nonexistent".as_ref());
    config.model("nothing", folder.path());
    let server = config.serve();
    assert_reported!(summary(&server, "try: curl"), @"
    ovms 0.1.0 serves 12 models (2 not served), with OpenVINO <version>
      gRPC: localhost:<port>
      REST: http://localhost:<rest port>
      dashboard: http://localhost:<rest port>/dashboard
      model: m00, version 1 on CPU
      model: m01, version 1 on CPU
      model: m02, version 1 on CPU
      model: m03, version 1 on CPU
      model: m04, version 1 on CPU
      model: m05, version 1 on CPU
      model: m06, version 1 on CPU
      model: m07, version 1 on CPU
      and: 4 more: ovms infer --status --url localhost:<port>
      missing: model `nothing` has no version to serve
      missing: 1 error, see above
      try: ovms infer m00 --random --url localhost:<port>
      try: curl http://localhost:<rest port>/v2/models/m00
    ");
}

#[test]
fn whoever_wants_warnings_or_errors_alone_is_reported_nothing() {
    for level in ["WARNING", "ERROR"] {
        let flags = ["--log_level", level];
        let server = Server::begin("dummy", &model("dummy"), &flags);
        // There is no line to wait for.
        crate::support::eventually("the server is ready", || {
            std::net::TcpStream::connect(("127.0.0.1", server.rest_port)).ok()?;
            (get(&server, "/v2/health/ready").status == 200).then_some(())
        });
        assert_eq!(server.log(), "", "{level}");
    }
}
