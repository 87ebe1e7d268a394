FRAME_TIMESTAMP_US = 43166520112  # example value
TIMESTAMP_PARAM_NAME = 'OVMS_MP_TIMESTAMP'

triton_client.async_stream_infer(model_name=graph_name,
                                        inputs=inputs,
                                        parameters={TIMESTAMP_PARAM_NAME: FRAME_TIMESTAMP_US})
