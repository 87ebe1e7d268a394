//! Models added to the text of a file and removed from it.

use super::super::{EditError, remove_model};

fn add_model(content: Option<&[u8]>, name: &str, path: &str) -> Result<String, EditError> {
    super::super::add_model(content, (name, path), &[])
}

#[test]
fn a_new_file_has_one_model() {
    insta::assert_snapshot!(add_model(None, "a \"b\"", "/m/a").unwrap(), @r#"
        {
            "model_config_list": [
                {"config": {"name": "a \"b\"", "base_path": "/m/a"}}
            ]
        }
        "#);
}

#[test]
fn settings_stand_behind_the_path() {
    let settings = [
        ("nireq", serde_json::json!(4)),
        ("plugin_config", serde_json::json!({"NUM_STREAMS": "2"})),
    ];
    let added = super::super::add_model(None, ("a", "m"), &settings).unwrap();
    insta::assert_snapshot!(added, @r#"
        {
            "model_config_list": [
                {"config": {"name": "a", "base_path": "m", "nireq": 4, "plugin_config": {"NUM_STREAMS":"2"}}}
            ]
        }
        "#);
    let again = |settings| super::super::add_model(Some(added.as_bytes()), ("a", "m"), settings);
    assert_eq!(again(&settings).unwrap(), added);
    assert_eq!(again(&[]).unwrap(), added);
    let settings_of =
        |text: &str, name| super::super::model_settings(text.as_bytes(), name).unwrap();
    let keys = ["nireq", "plugin_config"].map(str::to_owned).to_vec();
    assert_eq!(settings_of(&added, "a"), Some(keys));
    assert_eq!(settings_of(&added, "b"), None);
    assert_eq!(settings_of("{}", "a"), None);
    let other = [("nireq", serde_json::json!(5))];
    assert!(matches!(again(&other), Err(EditError::Occupied(_))));
}

#[test]
fn the_rest_of_a_file_stays_as_it_is() {
    let text = r#"{
  # the models
  "model_config_list": [
    // first
    {"config": {"name": "a", "base_path": "/m/a"}},  # of them
    {"config": {"name": "b", "base_path": "/m/b"}}   # [, {
  ],
  "monitoring": {"metrics": {"enable": true}}
}
"#;
    let added = add_model(Some(text.as_bytes()), "c", "/m/c").unwrap();
    insta::assert_snapshot!(added, @r#"
        {
          # the models
          "model_config_list": [
            // first
            {"config": {"name": "a", "base_path": "/m/a"}},  # of them
            {"config": {"name": "b", "base_path": "/m/b"}},   # [, {
            {"config": {"name": "c", "base_path": "/m/c"}}
          ],
          "monitoring": {"metrics": {"enable": true}}
        }
        "#);
    let without_b = remove_model(added.as_bytes(), "b").unwrap();
    let without_last = remove_model(without_b.as_bytes(), "c").unwrap();
    insta::assert_snapshot!(without_last, @r#"
        {
          # the models
          "model_config_list": [
            // first
            {"config": {"name": "a", "base_path": "/m/a"}}  # of them
               # [, {
          ],
          "monitoring": {"metrics": {"enable": true}}
        }
        "#);
    assert_eq!(
        remove_model(added.as_bytes(), "c").unwrap(),
        text,
        "back to where it began"
    );
}

#[test]
fn every_writing_of_a_list_can_be_added_to_and_removed_from() {
    for text in [
        "{}",
        "{ }",
        "{\"monitoring\":{\"metrics\":{\"enable\":false}}}",
        "{\"model_config_list\":[]}",
        "{\"model_config_list\": [ ]}",
        "{\"model_config_list\": [\n]}",
        "{\"model_config_list\": [ # none\n]}",
        "{\"model_config_list\":[{\"config\":{\"name\":\"a\"}}]}",
        "{\"model_config_list\":[{\"config\":{\"name\":\"a\"}},]}",
        "{\"model_config_list\":[{\"config\":{\"name\":\"a\"}} // x\n]}",
        "{\"model_config_list\":[{\"config\":{\"name\":\"a\"}} # ,\n]}",
        "{\"model_config_list\":[\n{\"config\":{\"name\":\"a\"}},\n]\n}",
        "\u{feff}{\r\n\"model_config_list\":[\r\n\t{\"config\":{\"name\":\"ä\"}}\r\n]\r\n}",
    ] {
        let names = |text: &str| -> Vec<String> {
            let path = std::path::Path::new("/config.json");
            let config = super::super::parse(text.as_bytes(), path, &Default::default());
            let models = config
                .unwrap_or_else(|error| panic!("{text}\n{error}"))
                .models;
            models
                .into_iter()
                .map(|entry| entry.name().to_owned())
                .collect()
        };
        let before = if text.contains("model_config_list") {
            names(text)
        } else {
            Vec::new()
        };
        let added = add_model(Some(text.as_bytes()), "new", "/m").unwrap();
        let mut expected = before.clone();
        expected.push("new".to_owned());
        assert_eq!(names(&added), expected, "{text}");
        let again = add_model(Some(added.as_bytes()), "new", "/m").unwrap();
        assert_eq!(again, added, "nothing to do");
        let taken = add_model(Some(added.as_bytes()), "new", "/other");
        assert!(matches!(taken, Err(EditError::Occupied(_))));
        let removed = remove_model(added.as_bytes(), "new").unwrap();
        assert_eq!(names(&removed), before, "{text}");
        for name in &before {
            let removed = remove_model(added.as_bytes(), name).unwrap();
            assert_eq!(names(&removed), ["new"], "{text}");
        }
    }
}

#[test]
fn what_is_not_there_is_reported() {
    let text = br#"{"model_config_list": [{"config": {"name": "resnet"}}]}"#;
    insta::assert_snapshot!(
        remove_model(text, "resnt").unwrap_err(),
        @"there is no model `resnt` in it; the models are resnet"
    );
    insta::assert_snapshot!(
        remove_model(br#"{"model_config_list": []}"#, "resnet").unwrap_err(),
        @"there is no model `resnet` in it, nor any other"
    );
    assert!(matches!(
        add_model(Some(b"[]"), "a", "/"),
        Err(EditError::NoList)
    ));
    assert!(matches!(
        add_model(Some(b"{"), "a", "/"),
        Err(EditError::Syntax(_))
    ));
}

#[test]
fn of_two_lists_the_one_that_counts_is_edited() {
    let text = r#"{"model_config_list": [], "model_config_list": []}"#;
    insta::assert_snapshot!(add_model(Some(text.as_bytes()), "a", "m").unwrap(), @r#"
        {"model_config_list": [], "model_config_list": [
            {"config": {"name": "a", "base_path": "m"}}
        ]}
        "#);
}
