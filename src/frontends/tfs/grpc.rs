//! The two services of the protocol over gRPC.

use std::{collections::BTreeMap, sync::Arc};

use axum::http::{Request, Response};
use futures::future::BoxFuture;
use prost::Message;
use tonic::Status;

use super::{SIGNATURE, SIGNATURES_TYPE, loaded, status, tensors, wire_type_of};
use crate::{
    budget::{Budget, Charge},
    engine::{Engine, ServableFacts},
    error::{Error, ErrorKind, Result},
    frontends::{
        intake::BodyLimits,
        received::Received,
        reply,
        unary::{Unary, UnaryBody, query},
        weight::{Kind, PREDICT},
    },
    pipeline::TensorDirection,
    proto::{
        tensorflow::{SignatureDef, TensorInfo, TensorShapeProto, tensor_shape_proto::Dim},
        tensorflow_serving::{
            GetModelMetadataRequest, GetModelMetadataResponse, GetModelStatusRequest,
            GetModelStatusResponse, ModelSpec, PredictRequest, PredictResponse,
            ReloadConfigResponse, SignatureDefMap, model_spec::VersionChoice,
        },
    },
    request::{ApiFamily, Interface, RequestOrigin},
    sequence::Arrival,
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

/// Both services.
#[derive(Debug, Clone)]
pub struct TfsService {
    engine: Arc<Engine>,
}

impl TfsService {
    /// Makes the services of an engine.
    #[must_use]
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    fn metadata(&self, request: GetModelMetadataRequest) -> Result<GetModelMetadataResponse> {
        let (name, version) = asked(request.model_spec)?;
        if request.metadata_field != [SIGNATURE_DEF] {
            return Err(Error::invalid("Invalid signature name"));
        }
        let (part, facts) = loaded(&self.engine, &name, version, ORIGIN)?;
        let signature = SignatureDef {
            inputs: infos(&facts, TensorDirection::Input),
            outputs: infos(&facts, TensorDirection::Output),
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

    fn status(&self, request: GetModelStatusRequest) -> Result<GetModelStatusResponse> {
        let (name, version) = asked(request.model_spec)?;
        let versions = status::versions(&self.engine, &name, version, ORIGIN)?;
        Ok(GetModelStatusResponse {
            model_version_status: versions.iter().map(status::message).collect(),
        })
    }
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

fn infos(facts: &ServableFacts, side: TensorDirection) -> BTreeMap<String, TensorInfo> {
    let tensors = match side {
        TensorDirection::Input => &facts.info().inputs,
        TensorDirection::Output => &facts.info().outputs,
    };
    tensors
        .iter()
        .map(|tensor| {
            let info = TensorInfo {
                name: tensor.name.clone(),
                dtype: wire_type_of(facts, side, tensor).into(),
                tensor_shape: Some(TensorShapeProto {
                    dim: tensor
                        .shape
                        .wire()
                        .into_iter()
                        .map(|size| Dim {
                            size,
                            name: String::new(),
                        })
                        .collect(),
                    unknown_rank: false,
                }),
            };
            (tensor.name.clone(), info)
        })
        .collect()
}

impl Unary for TfsService {
    type Request = PredictRequest;
    type Response = PredictResponse;

    const PATH: &str = "/tensorflow.serving.PredictionService/Predict";

    const KIND: Kind = PREDICT;

    fn model(request: &PredictRequest) -> Option<&str> {
        Some(&request.model_spec.as_ref()?.name)
    }

    async fn run(
        &self,
        mut request: PredictRequest,
        decoded: Charge,
        effort: usize,
        arrival: Arc<Arrival>,
        budget: &Budget,
    ) -> Result<PredictResponse> {
        let (name, version) = asked(request.model_spec.take())?;
        let find = self.engine.find(&name, version, ORIGIN);
        let target = arrival.finds(&name, find).await?.arrived(arrival);
        let stateful = target.is_stateful();
        let budget = budget.clone();
        let decode = move || {
            let request = tensors::decode(request, stateful, &budget);
            drop(decoded);
            request
        };
        let request = task::sized("unpack", effort, decode).await?;
        Ok(tensors::encode(target.infer(request).await?))
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

impl TfsService {
    /// Answers any other call of the two services; `None` if there is no such method.
    pub(in crate::frontends) fn query(
        self,
        intake: BodyLimits,
        request: Request<Received>,
    ) -> Option<BoxFuture<'static, Response<UnaryBody>>> {
        let failure = |error: Error| reply::status(&error);
        let path = request.uri().path();
        if let Some(method) = path.strip_prefix(PREDICTION) {
            let call = ["Classify", "Regress", "MultiInference"].into_iter();
            if let Some(call) = call.into_iter().find(|call| *call == method) {
                let response = unserved(call).into_http();
                return Some(Box::pin(std::future::ready(response)));
            }
        }
        Some(match path {
            METADATA => Box::pin(query(intake, request, move |asked| {
                self.metadata(asked).map_err(failure)
            })),
            STATUS => Box::pin(query(intake, request, move |asked| {
                self.status(asked).map_err(failure)
            })),
            // Good and without effect, as start scripts that send it expect.
            RELOAD => Box::pin(query(intake, request, |(): ()| {
                Ok(ReloadConfigResponse::default())
            })),
            _ => return None,
        })
    }
}

fn unserved(call: &str) -> Status {
    reply::status(&Error::new(
        ErrorKind::Unimplemented,
        format!("Functionality not implemented - {call}; send requests with Predict"),
    ))
}
