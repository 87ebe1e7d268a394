//! The two services of the protocol over gRPC.

use axum::http::{Request, Response};
use futures::future::BoxFuture;
use prost::Message;
use tonic::Status;

use super::{SIGNATURE, SIGNATURES_TYPE, infos, loaded, tensors};
use crate::{
    budget::{Budget, Charge},
    error::{Error, ErrorKind, Result},
    frontends::{
        body::BodyLimits,
        guard::Access,
        received::Received,
        tfs,
        unary::{CallContext, Unary, UnaryBody, query},
        weight::{Kind, PREDICT},
    },
    proto::{
        tensorflow::SignatureDef,
        tensorflow_serving::{
            GetModelMetadataRequest, GetModelMetadataResponse, GetModelStatusRequest,
            GetModelStatusResponse, ModelSpec, PredictRequest, PredictResponse,
            ReloadConfigResponse, SignatureDefMap, model_spec::VersionChoice,
        },
    },
    request::{ApiFamily, Interface, RequestOrigin},
    task,
};

const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::TensorFlowServing,
    interface: Interface::Grpc,
};

/// Path prefix of the prediction service.
const PREDICTION: &str = "/tensorflow.serving.PredictionService/";

const METADATA: &str = "/tensorflow.serving.PredictionService/GetModelMetadata";
const STATUS: &str = "/tensorflow.serving.ModelService/GetModelStatus";
const RELOAD: &str = "/tensorflow.serving.ModelService/HandleReloadConfigRequest";

/// The metadata that can be asked for.
const SIGNATURE_DEF: &str = "signature_def";

/// `Predict`.
pub(in crate::frontends) struct Predict;

impl Unary for Predict {
    type Request = PredictRequest;
    type Response = PredictResponse;

    const PATH: &str = "/tensorflow.serving.PredictionService/Predict";

    const KIND: Kind = PREDICT;

    fn model(request: &PredictRequest) -> Option<&str> {
        Some(&request.model_spec.as_ref()?.name)
    }

    async fn run(
        engine: &Access,
        mut request: PredictRequest,
        decoded: Charge,
        effort: usize,
        context: CallContext,
        budget: &Budget,
    ) -> Result<PredictResponse> {
        let (name, version) = asked(request.model_spec.take())?;
        let find = engine.find(&name, version, ORIGIN);
        let target = context.arrival.finds(&name, find).await?;
        let target = target.arrived(context.arrival).keyed(context.key.text())?;
        let stateful = target.is_stateful();
        let budget = budget.clone();
        let decode = move || {
            let request = tensors::decode(request, stateful, &budget);
            drop(decoded);
            request
        };
        let mut request = task::sized("unpack", effort, decode).await?;
        (request.trace, request.priority) = (context.trace, context.priority);
        Ok(tensors::encode(target.infer(request).await?, stateful))
    }

    fn size(answer: &PredictResponse) -> usize {
        answer
            .outputs
            .values()
            .map(|tensor| {
                let strings = tensor.string_val.iter().map(bytes::Bytes::len);
                tensor.tensor_content.len() + strings.sum::<usize>() + tensor.string_val.len()
            })
            .sum()
    }
}

/// Answers any other call of the two services; `None` if there is no such method.
pub(in crate::frontends) fn answer(
    engine: Access,
    limits: BodyLimits,
    request: Request<Received>,
) -> Option<BoxFuture<'static, Response<UnaryBody>>> {
    Some(match request.uri().path() {
        METADATA => Box::pin(query(limits, request, move |it| metadata(&engine, it))),
        STATUS => Box::pin(query(limits, request, move |it| status(&engine, it))),
        // Good and without effect, as start scripts that send it expect.
        RELOAD => Box::pin(query(limits, request, |(): ()| {
            Ok(ReloadConfigResponse::default())
        })),
        path => {
            let method = path.strip_prefix(PREDICTION)?;
            let unserved = ["Classify", "Regress", "MultiInference"];
            let call = unserved.into_iter().find(|call| *call == method)?;
            let text =
                format!("Functionality not implemented - {call}; send requests with Predict");
            let error = Error::new(ErrorKind::Unimplemented, text);
            Box::pin(std::future::ready(Status::from(error).into_http()))
        }
    })
}

fn metadata(engine: &Access, request: GetModelMetadataRequest) -> Result<GetModelMetadataResponse> {
    let (name, version) = asked(request.model_spec)?;
    if request.metadata_field != [SIGNATURE_DEF] {
        return Err(Error::invalid("Invalid signature name"));
    }
    let (part, facts) = loaded(engine, &name, version, ORIGIN)?;
    let signature = SignatureDef {
        inputs: infos(&facts.info().inputs),
        outputs: infos(&facts.info().outputs),
        ..SignatureDef::default()
    };
    let signatures = SignatureDefMap {
        signature_def: [(SIGNATURE.to_owned(), signature)].into(),
    };
    let any = prost_types::Any {
        type_url: SIGNATURES_TYPE.to_owned(),
        value: signatures.encode_to_vec(),
    };
    Ok(GetModelMetadataResponse {
        model_spec: Some(ModelSpec {
            name,
            version_choice: Some(VersionChoice::Version(part.number())),
            ..ModelSpec::default()
        }),
        metadata: [(SIGNATURE_DEF.to_owned(), any)].into(),
    })
}

fn status(engine: &Access, request: GetModelStatusRequest) -> Result<GetModelStatusResponse> {
    let (name, version) = asked(request.model_spec)?;
    let versions = tfs::asked_versions(engine, &name, version, ORIGIN)?;
    Ok(GetModelStatusResponse {
        model_version_status: versions.iter().map(tfs::version_status).collect(),
    })
}

/// Returns name and version of what a request is for; labels and signatures are not looked at.
fn asked(spec: Option<ModelSpec>) -> Result<(String, Option<i64>)> {
    let spec = spec.ok_or_else(|| Error::invalid("model_spec missing in request"))?;
    let version = match spec.version_choice {
        Some(VersionChoice::Version(number)) if number != 0 => Some(number),
        _ => None,
    };
    Ok((spec.name, version))
}
