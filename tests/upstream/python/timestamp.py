timestamp = result.get_response().parameters["OVMS_MP_TIMESTAMP"].int64_param
