#!/bin/sh
# Runs job.py on Kubernetes, in the current namespace of kubectl:
#   deploy/spark/kubernetes/submit.sh k8s://https://localhost:6443 registry/aerobee-spark:0.1.0 count export
# The image is the target `spark` of deploy/Dockerfile; access.yaml and broker.yaml, or claims named broker-store
# and lake of your own, are there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
master=$1 image=$2
shift 2
exec spark-submit \
  --master "$master" \
  --deploy-mode cluster \
  --name aerobee \
  --conf spark.kubernetes.namespace="${NAMESPACE:-default}" \
  --conf spark.kubernetes.container.image="$image" \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=aerobee-spark \
  --conf spark.kubernetes.driver.podTemplateFile="$here/pod.yaml" \
  --conf spark.kubernetes.driver.podTemplateContainerName=spark \
  --conf spark.kubernetes.executor.podTemplateFile="$here/pod.yaml" \
  --conf spark.kubernetes.executor.podTemplateContainerName=spark \
  --conf spark.kubernetes.memoryOverheadFactor=0.4 \
  --conf spark.executor.instances="${EXECUTORS:-2}" \
  --conf spark.executor.memory=2g \
  --conf spark.executor.cores=2 \
  --conf spark.sql.session.timeZone=UTC \
  local:///opt/aerobee/job.py --store /store --to /lake "$@"
