//! Random pipelines: run in any order they give what a reading without a schedule gives, and a
//! mistake in one is found.

use std::{collections::HashSet, sync::Arc};

use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::random::{Nothing, Random, Value};
use crate::{
    budget::Budget,
    config::{EmptyResults, NodeKind, PipelineConfig},
    error::ErrorKind,
    pipeline::{
        check,
        flow::RequestFlow,
        plan::{Count, PipelinePlan, PipelinePlanNode},
        scheduler::Ready,
    },
    tensor::{
        DataType, Tensor,
        values::{Value as Number, values},
    },
};

fn tensor(value: &Value) -> Tensor {
    let numbers = value.data.iter();
    let bytes = numbers.flat_map(|number| match value.dtype {
        DataType::I64 => number.to_le_bytes().to_vec(),
        DataType::I16 => i16::try_from(*number).unwrap().to_le_bytes().to_vec(),
        DataType::U8 => vec![u8::try_from(*number).unwrap()],
        DataType::F64 => (*number as f64).to_le_bytes().to_vec(),
        other => panic!("{other}"),
    });
    let bytes: Vec<u8> = bytes.collect();
    Tensor::new(value.dtype, value.shape.clone(), bytes.into()).unwrap()
}

fn value(tensor: &Tensor) -> Value {
    let numbers = values(tensor).map(|number| match number {
        Number::Int(number) => number,
        Number::Uint(number) => i64::try_from(number).unwrap(),
        Number::Double(number) => number as i64,
        other => panic!("{other:?}"),
    });
    Value {
        dtype: tensor.dtype(),
        shape: tensor.shape().to_vec(),
        data: numbers.collect(),
    }
}

/// Runs a request, one job at a time, in any order.
fn run(
    random: &Random,
    plan: &Arc<PipelinePlan>,
    rng: &mut StdRng,
) -> crate::error::Result<Vec<Value>> {
    // Inputs that no node uses are not asked for.
    let (inputs, used) = (
        random.config().inputs,
        &plan.nodes[PipelinePlan::ENTRY].outputs,
    );
    let given = inputs.iter().zip(&random.request);
    let given = given.filter(|(input, _)| used.iter().any(|used| used.name == **input));
    let request = given.map(|(_, value)| tensor(value)).collect();
    let (mut flow, mut jobs) = RequestFlow::start(Arc::clone(plan), request)?;
    let mut runs: HashSet<Ready> = HashSet::new();
    loop {
        let job = jobs.swap_remove(rng.random_range(0..jobs.len()));
        let ready = job.ready;
        assert!(runs.insert(ready), "each runs once");
        let node = &plan.nodes[ready.node];
        let inputs = job.tensors(plan, &Budget::default())?;
        if ready.node == plan.exit() {
            assert!(jobs.is_empty(), "the response waits for all");
            return Ok(inputs.iter().map(value).collect());
        }
        let inputs: Vec<Value> = inputs.iter().map(value).collect();
        let computed = random.compute(ready.node, &inputs);
        let outputs = node.outputs.iter().map(|output| {
            let place: usize = output.name.strip_prefix("out").unwrap().parse().unwrap();
            tensor(&computed[place])
        });
        jobs.extend(flow.finished(ready, outputs.collect())?);
    }
}

/// Makes a mistake; returns the rules of which one has to be reported, or `None` if this kind of
/// mistake cannot be made here.
fn mistake(config: &mut PipelineConfig, kind: usize, rng: &mut StdRng) -> Option<&'static [u8]> {
    let count = config.nodes.len();
    let place = if count == 0 {
        0
    } else {
        rng.random_range(0..count)
    };
    if kind == 0 {
        config.outputs[0].node_name = "nowhere".to_owned();
        return Some(&[15]);
    }
    if kind == 1 {
        config.outputs.push(config.outputs[0].clone());
        return Some(&[18]);
    }
    if count == 0 {
        return None;
    }
    let split = config
        .nodes
        .iter()
        .any(|node| node.demultiply_count.is_some());
    let gathered = |name: &str| {
        let mut nodes = config.nodes.iter();
        nodes.any(|node| node.gather_from_node.as_deref() == Some(name))
    };
    let gathered = gathered(&config.nodes[place].name);
    let node = &mut config.nodes[place];
    Some(match kind {
        2 => {
            node.inputs[0].node_name = "response".to_owned();
            &[16]
        }
        3 => {
            node.inputs[0].data_item = "nothing".to_owned();
            &[19]
        }
        4 => {
            for output in &mut node.outputs {
                output.data_item = "nothing".to_owned();
            }
            &[20]
        }
        5 => {
            node.name = "response".to_owned();
            &[5]
        }
        6 => {
            node.gather_from_node = Some("nowhere".to_owned());
            &[13]
        }
        7 => {
            node.gather_from_node = Some("response".to_owned());
            &[14]
        }
        8 => {
            node.inputs.remove(0);
            &[24]
        }
        9 => {
            node.inputs[0].name = "extra".to_owned();
            &[17]
        }
        10 => {
            match &mut node.kind {
                NodeKind::Model {
                    model_name: name, ..
                }
                | NodeKind::Custom {
                    library_name: name, ..
                } => "nothing".clone_into(name),
            }
            &[2, 6]
        }
        11 if split => {
            config.demultiply_count = Some(-1);
            &[4]
        }
        12 => {
            node.inputs[0].node_name = node.name.clone();
            node.inputs[0].data_item = "z0".to_owned();
            &[25]
        }
        13 => {
            let mut idle = node.clone();
            idle.name = "idle".to_owned();
            config.nodes.push(idle);
            &[26]
        }
        // What comes from the request alone would be of one dimension more, which is fine.
        14 if node.gather_from_node.is_some()
            && node.inputs.iter().any(|input| input.node_name != "request") =>
        {
            node.gather_from_node = None;
            &[21, 27, 28]
        }
        15 if gathered => {
            node.demultiply_count = None;
            &[14]
        }
        _ => return None,
    })
}

/// Pipelines that never have what is to be tested would always pass.
#[test]
fn random_pipelines_have_what_matters() {
    let mut found: HashSet<&str> = HashSet::new();
    for seed in 0..300 {
        let random = Random::new(seed, 5);
        let plan = check(&random.config(), &random).unwrap().plan;
        let mut note = |what, is_there: bool| is_there.then(|| found.insert(what));
        for node in &plan.nodes {
            let inner = node.name != "response";
            note("three levels", node.levels.len() >= 3);
            note(
                "a gather within a level",
                node.gathers.len() == 1 && !node.levels.is_empty(),
            );
            note(
                "closes and opens",
                !node.gathers.is_empty() && node.opens.is_some(),
            );
            note("two levels at once", node.gathers.len() >= 2);
            note("several sources", node.sources.len() >= 3);
            for adapter in node
                .inputs
                .iter()
                .filter_map(|input| input.convert.as_ref())
            {
                let gathers = !node.gathers.is_empty();
                note("a type is converted", adapter.to.is_some() && !gathers);
                note("axes are converted", adapter.axes.is_some() && !gathers);
                let both = adapter.to.is_some() && adapter.axes.is_some();
                note("what is gathered is converted", both && gathers);
            }
            note(
                "one source twice",
                inner && node.inputs.len() > node.sources.len(),
            );
        }
        let entry = &plan.nodes[PipelinePlan::ENTRY];
        note("a request that is split", entry.opens.is_some());
        let mut nodes = plan.nodes[..plan.exit()].iter();
        let closes = |node: &PipelinePlanNode| node.gathers.first() == entry.opens.as_ref();
        let closed = entry.opens.is_some() && nodes.any(closes);
        note("a request that is closed by a node", closed);
        let dynamic = plan
            .levels
            .iter()
            .any(|level| level.count == Count::Dynamic);
        note("a dynamic count", dynamic);
        let nothing = random.response() == Err(Nothing);
        note("nothing", nothing);
        let empty = |value: &Value| value.shape.first() == Some(&0);
        let allowed = random.empty_results == EmptyResults::Allow;
        if allowed && let Ok(response) = random.response() {
            let parts = dynamic && plan.nodes[plan.exit()].gathers.len() == 1;
            note(
                "a response of no parts",
                parts && response.iter().all(empty),
            );
        }
        note("something of a dynamic count", dynamic && !nothing);
    }
    assert_eq!(found.len(), 15, "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_order_gives_what_a_plain_reading_gives(
        seed in any::<u64>(),
        size in 0_usize..6,
        order in any::<u64>(),
    ) {
        let random = Random::new(seed, size);
        let plan = match check(&random.config(), &random) {
            Ok(checked) => Arc::new(checked.plan),
            Err(errors) => panic!("{errors}\n{random:?}"),
        };
        let result = run(&random, &plan, &mut StdRng::seed_from_u64(order));
        match (random.response(), result) {
            (Ok(expected), Ok(found)) => {
                for (output, value) in plan.info.outputs.iter().zip(0..) {
                    let shape = &found[output.port].shape;
                    let allowed = &output.shape.0;
                    let fits = output.is_open
                        || (shape.len() == allowed.len()
                            && allowed.iter().zip(shape).all(|(dim, length)| dim.allows(*length)));
                    prop_assert!(fits, "{value}: {shape:?} as {}", output.shape);
                }
                prop_assert_eq!(found, expected);
            }
            (Err(Nothing), Err(error)) if error.kind() == ErrorKind::Aborted => {}
            (expected, found) => panic!("{expected:?} but {found:?}\n{random:?}"),
        }
    }

    #[test]
    fn any_mistake_is_found(
        seed in any::<u64>(),
        size in 0_usize..6,
        kind in 0_usize..16,
        place in any::<u64>(),
    ) {
        let random = Random::new(seed, size);
        let mut config = random.config();
        let mut rng = StdRng::seed_from_u64(place);
        if let Some(rules) = mistake(&mut config, kind, &mut rng) {
            let reported = match check(&config, &random) {
                Ok(_) => panic!("{kind} is not found in {config:?}"),
                Err(errors) => errors.errors,
            };
            let found = reported.iter().any(|error| rules.contains(&error.rule.unwrap().number));
            prop_assert!(found, "{kind}: {reported:?}");
        }
    }
}
