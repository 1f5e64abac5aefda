"""Settings of Aerobee's brokers that work after a restart alone; a test holds it to theirs."""

from typing import Final

RESTART_KEYS: Final = frozenset(
    {
        "acceptPauseMs", "acceptsPerTurnMax", "adminBindAddress", "adminPort", "auditFile",
        "auditFileBytesMax", "auditFilesMax", "authenticationEnabled",
        "authenticationMetadataProvider", "authenticationProvider", "authenticationStrategy",
        "authenticationWhitelist", "authorizationEnabled", "authorizationMetadataProvider",
        "authorizationProvider", "authorizationStrategy", "authorizationWhitelist", "bindAddress",
        "brokerClusterName", "brokerIP1", "brokerIP2", "brokerId", "brokerName", "brokerRole",
        "brokerTopicEnable", "callsMax", "certificateUsers", "closeTimeoutMs",
        "clusterTopicEnable", "coldReadThreads", "compactionCqMappedFileSize",
        "compactionMappedFileSize", "compactionThreadNum", "connectTimeoutMillis",
        "connectionsMax", "dedupEntriesMax", "defaultTopicQueueNums", "disappearTimeAfterStart",
        "enableCompaction", "enableLmq", "enableMultiDispatch", "enableRemotingMetrics",
        "flushDiskType", "flushIntervalCommitLog", "flushIntervalConsumeQueue", "frameMaxLength",
        "frameTimeoutMs", "framesPerTurnMax", "haListenPort", "handshakeTimeoutMs",
        "handshakesMax", "heldPullsMax", "heldPullsPerConnectionMax", "helperProcess", "httpHost",
        "httpPort", "initAuthenticationUser", "innerClientAuthenticationCredentials",
        "listenPort", "logCacheBytes", "logFile", "logFileBytesMax", "logFilesMax", "logFormat",
        "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "mappedFileSizeTimerLog",
        "maxHashSlotNum", "maxIndexNum", "maxMessageSize", "maxOffsetMapSize", "membershipsMax",
        "messageDelayLevel", "messageIndexEnable", "metricGrpcExporterIntervalInMills",
        "metricGrpcExporterTimeOutInMills", "metricsExportBatchMaxDataPoints",
        "metricsExporterType", "metricsGrpcExporterHeader", "metricsGrpcExporterTarget",
        "metricsInDelta", "metricsPromExporterHost", "metricsPromExporterPort",
        "migrateAuthFromV1Enabled", "msgTraceTopicName", "ownedQueuesMax", "partialBytesMax",
        "plainAclPath", "preparedBytes", "refuseNameInUse", "replyBytesPerTurnMax",
        "replyPushesMax", "reviveQueueNum", "serverChannelMaxIdleTimeSeconds",
        "storePathCommitLog", "storePathRootDir", "subscriptionBytesMax", "sweepIntervalMs",
        "syncFlushTimeout", "timerRollWindowSlot", "timerWheelEnable", "tls.client.authServer",
        "tls.client.certPath", "tls.client.keyPassword", "tls.client.keyPath",
        "tls.client.trustCertPath", "tls.enable", "tls.server.authClient", "tls.server.certPath",
        "tls.server.keyPassword", "tls.server.keyPath", "tls.server.mode",
        "tls.server.need.client.auth", "tls.server.trustCertPath", "tls.test.mode.enable",
        "traceTopicEnable", "transactionEnable", "unsentBytesMax", "waitingBytesMax",
        "waitingRequestsMax", "waitingTotalBytesMax", "writeBytesMax", "writePauseBytes",
        "writeResumeBytes", "writeTimeoutMs",
    }
)  # fmt: skip
"""All others work at once."""
