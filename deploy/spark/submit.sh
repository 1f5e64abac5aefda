#!/bin/sh
# Runs job.py on a Spark cluster:
#   deploy/spark/submit.sh spark://master:7077 --store /data/store --to /data/lake count stream export
# `aerobee.zip`, made by zip_wheel.py, goes along; PYSPARK_PYTHON is a Python that every machine has,
# with pyspark, pyarrow and the other packages of `pip install 'aerobee[spark]'`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
modules=${AEROBEE_ZIP:-$here/aerobee.zip}
master=$1
shift
# what plans a stream runs beside the driver and is not told of --py-files
PYTHONPATH=$modules${PYTHONPATH:+:$PYTHONPATH}
PYSPARK_PYTHON=${PYSPARK_PYTHON:-python3}
export PYTHONPATH PYSPARK_PYTHON
exec spark-submit \
  --master "$master" \
  --py-files "$modules" \
  --conf spark.sql.session.timeZone=UTC \
  --conf spark.executor.memory="${EXECUTOR_MEMORY:-2g}" \
  --conf spark.executor.cores="${EXECUTOR_CORES:-2}" \
  "$here/job.py" "$@"
