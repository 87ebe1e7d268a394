//! Amazon S3 and servers that speak its protocol: endpoint, region and credentials.
//!
//! As the C++ server has it: `S3_ENDPOINT`, keys from the environment, `AWS_PROFILE`, and anonymous
//! access without either. Besides, what Amazon's own tools take: the endpoint's variables, roles of
//! containers, and the identity of the machine.

use std::{path::PathBuf, sync::Arc};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};

use super::{
    StorageEnvironment,
    access::{Found, Identity, unreadable},
    listing::FileIdentity,
    location::Location,
};
use crate::error::{Error, Result};

/// Default region of a bucket; Amazon's own tools use the same.
const DEFAULT_REGION: &str = "us-east-1";

/// Roles of containers and of Kubernetes' service accounts.
const ROLES: [(&str, Key); 7] = [
    ("AWS_WEB_IDENTITY_TOKEN_FILE", Key::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", Key::RoleArn),
    ("AWS_ROLE_SESSION_NAME", Key::RoleSessionName),
    ("AWS_ENDPOINT_URL_STS", Key::StsEndpoint),
    (
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        Key::ContainerCredentialsRelativeUri,
    ),
    (
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        Key::ContainerCredentialsFullUri,
    ),
    (
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        Key::ContainerAuthorizationTokenFile,
    ),
];

pub(super) fn find(location: &Location, environment: &StorageEnvironment) -> Result<Found> {
    let mut builder = AmazonS3Builder::new().with_bucket_name(&location.bucket);
    let keys = match keys(environment)? {
        Some(keys) => Some(keys),
        None => profile(environment)?,
    };
    let mut credentials = keys.is_some();
    if let Some(keys) = &keys {
        builder = with_keys(builder, keys);
    }
    let region = environment.first(&["AWS_REGION", "AWS_DEFAULT_REGION"]);
    let region = region.or(keys.as_ref().and_then(|keys| keys.region.as_deref()));
    if !credentials {
        for (variable, key) in ROLES {
            if let Some(value) = environment.get(variable) {
                builder = builder.with_config(key, value);
            }
        }
        let has = |names: &[&str]| names.iter().all(|name| environment.get(name).is_some());
        credentials = has(&["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"])
            || has(&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"])
            || has(&[
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
            ]);
    }
    let region = region.unwrap_or(DEFAULT_REGION).to_owned();
    let read = keys.iter().flat_map(Keys::facts);
    let digest = FileIdentity::of(read.chain([region.clone()]));
    builder = builder.with_region(&region);
    let endpoint = endpoint(location, environment);
    if let Some(endpoint) = &endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let metadata = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if let Some(metadata) = metadata {
        builder = builder.with_metadata_endpoint(metadata);
    }
    let disabled = environment
        .get("AWS_EC2_METADATA_DISABLED")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    // The identity of this machine is sent to no server but Amazon's, unless that is asked for.
    let ask_machine = !disabled && (endpoint.is_none() || metadata.is_some());
    Ok(Found {
        server: endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com")),
        region,
        credentials,
        digest,
        ask_machine,
        open: Box::new(move |setting, identity| {
            let builder = builder
                .clone()
                .with_skip_signature(identity == Identity::Anonymous)
                .with_http_connector(setting.connector.clone())
                .with_retry(setting.retries.clone());
            Ok(Arc::new(builder.build()?))
        }),
    })
}

/// Returns the server, if it is not Amazon's own; one without a scheme is spoken to without TLS, as
/// with the C++ server.
fn endpoint(location: &Location, environment: &StorageEnvironment) -> Option<String> {
    let named = environment
        .get("S3_ENDPOINT")
        .or(location.endpoint.as_deref())
        .or_else(|| environment.first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]))?;
    let named = named.trim_end_matches('/');
    Some(if named.contains("://") {
        named.to_owned()
    } else {
        format!("http://{named}")
    })
}

struct Keys {
    id: String,
    secret: String,
    token: Option<String>,
    /// The region of the profile that they are from.
    region: Option<String>,
}

impl Keys {
    fn facts(&self) -> [String; 3] {
        let token = self.token.clone().unwrap_or_default();
        [self.id.clone(), self.secret.clone(), token]
    }
}

fn with_keys(builder: AmazonS3Builder, keys: &Keys) -> AmazonS3Builder {
    let builder = builder
        .with_access_key_id(&keys.id)
        .with_secret_access_key(&keys.secret);
    match &keys.token {
        Some(token) => builder.with_token(token),
        None => builder,
    }
}

fn keys(environment: &StorageEnvironment) -> Result<Option<Keys>> {
    const ID: &str = "AWS_ACCESS_KEY_ID";
    const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
    let half = |given, missing| {
        let text = format!("`{given}` is set and `{missing}` is not");
        Err(Error::invalid(text))
    };
    match (environment.get(ID), environment.get(SECRET)) {
        (Some(id), Some(secret)) => Ok(Some(Keys {
            id: id.to_owned(),
            secret: secret.to_owned(),
            token: environment.get("AWS_SESSION_TOKEN").map(str::to_owned),
            region: None,
        })),
        (Some(_), None) => half(ID, SECRET),
        (None, Some(_)) => half(SECRET, ID),
        (None, None) => Ok(None),
    }
}

/// Reads the keys of `AWS_PROFILE` from the file of credentials.
fn profile(environment: &StorageEnvironment) -> Result<Option<Keys>> {
    let Some(name) = environment.get("AWS_PROFILE") else {
        return Ok(None);
    };
    let home = environment.path("HOME").unwrap_or_default();
    let file = |variable: &str, name: &str| {
        environment
            .get(variable)
            .map_or_else(|| home.join(".aws").join(name), PathBuf::from)
    };
    let path = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    let text =
        std::fs::read_to_string(&path).map_err(|error| unreadable(&path, "AWS_PROFILE", error))?;
    if !text.lines().any(|line| is_section(line, name)) {
        let path = path.display();
        return Err(Error::invalid(format!(
            "there is no profile `{name}` in {path}"
        )));
    }
    let key = |key: &'static str| {
        entry(&text, name, key).ok_or_else(|| {
            Error::invalid(format!(
                "profile `{name}` has no `{key}`; only profiles with keys are supported, not \
                 roles, single sign-on or processes"
            ))
        })
    };
    let (id, secret) = (key("aws_access_key_id")?, key("aws_secret_access_key")?);
    // The region is a setting, which stands in another file; it need not be there.
    let settings = std::fs::read_to_string(file("AWS_CONFIG_FILE", "config")).unwrap_or_default();
    let region = entry(&settings, &format!("profile {name}"), "region")
        .or_else(|| entry(&settings, name, "region"))
        .or_else(|| entry(&text, name, "region"));
    Ok(Some(Keys {
        id,
        secret,
        token: entry(&text, name, "aws_session_token"),
        region,
    }))
}

fn is_section(line: &str, name: &str) -> bool {
    let line = line.trim();
    line.strip_prefix('[')
        .and_then(|line| line.strip_suffix(']'))
        .is_some_and(|found| found.trim() == name)
}

/// Returns the value of a key in a section of an INI file.
fn entry(text: &str, section: &str, key: &str) -> Option<String> {
    text.lines()
        .skip_while(|line| !is_section(line, section))
        .skip(1)
        .take_while(|line| !line.trim_start().starts_with('['))
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Location, StorageEnvironment, find, profile};

    fn found(base_path: &str, variables: &[(&str, &str)]) -> String {
        let location = Location::parse(base_path).unwrap();
        let environment = variables.iter().copied().collect();
        let found = find(&location, &environment).unwrap();
        format!(
            "{} {} credentials={} machine={}",
            found.server, found.region, found.credentials, found.ask_machine
        )
    }

    #[test]
    fn endpoint_and_region_come_from_the_environment_and_the_path() {
        let region = ("AWS_REGION", "eu-central-1");
        let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        let endpoint = ("S3_ENDPOINT", "minio:9000");
        let url = ("AWS_ENDPOINT_URL", "https://minio/");
        let all = [
            found("s3://b/p", &[]),
            found("s3://b/p", &[region, keys[0], keys[1]]),
            found("s3://h:1/b/p", &[url]),
            found("s3://h:1/b/p", &[url, endpoint]),
            found("s3://b/p", &[("AWS_EC2_METADATA_DISABLED", "true")]),
        ]
        .join("\n");
        insta::assert_snapshot!(all, @r"
        https://s3.us-east-1.amazonaws.com us-east-1 credentials=false machine=true
        https://s3.eu-central-1.amazonaws.com eu-central-1 credentials=true machine=true
        http://h:1 us-east-1 credentials=false machine=false
        http://minio:9000 us-east-1 credentials=false machine=false
        https://s3.us-east-1.amazonaws.com us-east-1 credentials=false machine=false
        ");
    }

    #[test]
    fn half_of_a_key_is_an_error() {
        let location = Location::parse("s3://b/p").unwrap();
        let environment = [("AWS_SECRET_ACCESS_KEY", "b")].into_iter().collect();
        let refused = find(&location, &environment).err().unwrap();
        assert_eq!(
            refused.to_string(),
            "`AWS_SECRET_ACCESS_KEY` is set and `AWS_ACCESS_KEY_ID` is not"
        );
    }

    #[test]
    fn a_profile_has_keys_and_a_region() {
        let home = tempfile::tempdir().unwrap();
        let aws = home.path().join(".aws");
        fs::create_dir(&aws).unwrap();
        fs::write(
            aws.join("credentials"),
            "[default]\naws_access_key_id = x\n\n[ models ]\naws_access_key_id=id\n\
             # a comment\naws_secret_access_key = a=b\n[roles]\nrole_arn = x\n",
        )
        .unwrap();
        fs::write(aws.join("config"), "[profile models]\nregion = eu-west-1\n").unwrap();
        let read = |name: &str| {
            let home = home.path().display().to_string();
            let environment: StorageEnvironment =
                [("HOME", home), ("AWS_PROFILE", name.to_owned())]
                    .into_iter()
                    .collect();
            profile(&environment)
        };
        let models = read("models").unwrap().unwrap();
        assert_eq!(models.id, "id");
        assert_eq!(models.secret, "a=b");
        assert_eq!(models.region.as_deref(), Some("eu-west-1"));
        let refused = ["roles", "default", "other"].map(|name| {
            let error = read(name).err().unwrap().to_string();
            error.replace(&aws.display().to_string(), "~/.aws")
        });
        insta::assert_snapshot!(refused.join("\n"), @"
        profile `roles` has no `aws_access_key_id`; only profiles with keys are supported, not roles, single sign-on or processes
        profile `default` has no `aws_secret_access_key`; only profiles with keys are supported, not roles, single sign-on or processes
        there is no profile `other` in ~/.aws/credentials
        ");
    }
}
