"""Every key of RocketMQ's broker that has no field here: a promise, or harmless.

Together with the fields of `BrokerSettings` the two tables hold each key of
`remoting/config/settings_keys.py` once; a test looks. The rule: what would go wrong in silence is a
promise and is refused; what a client asks for by a request of its own (POP, recall)
is refused then, by code, so the keys that tune it are harmless here.
"""

from typing import Final

from aerobee.remoting.config.promises import Promise

_ONE = ("0", "1", "")
_COPY = "there is no replication yet, each message is on this broker's disk alone"
_ACL_1 = "the access control of RocketMQ before 5.3 is not served, nobody would be asked"
_ROCKSDB = (
    "topics, groups, offsets and queues are kept in files, what RocksDB holds would be unseen"
)

PROMISES: Final = {
    # who may do what
    "aclEnable": Promise(
        _ACL_1,
        "set it to false, and authenticationEnabled, authorizationEnabled and, for the users of"
        " plain_acl.yml, migrateAuthFromV1Enabled to true",
    ),
    "tls.config.file": Promise(
        "no second file is read, so its TLS would be missing", "put its lines into this file", ("",)
    ),
    "useTLS": Promise("it is not read", "use tls.enable=true for calls to nameservers"),
    # how many disks have a message
    "enableDLegerCommitLog": Promise(_COPY, "set it to false, and brokerRole=ASYNC_MASTER"),
    "enableControllerMode": Promise(_COPY, "set it to false: nobody would take over from it"),
    "enableSlaveActingMaster": Promise(_COPY, "set it to false: nobody would stand in for it"),
    "enableRemoteEscape": Promise(
        _COPY, "set it to false: no other broker would take its messages"
    ),
    "inSyncReplicas": Promise(_COPY, "set it to 1", _ONE),
    "minInSyncReplicas": Promise(_COPY, "set it to 1", _ONE),
    "totalReplicas": Promise(_COPY, "set it to 1", _ONE),
    "allAckInSyncStateSet": Promise(_COPY, "set it to false"),
    "enableAutoInSyncReplicas": Promise(_COPY, "set it to false"),
    "duplicationEnable": Promise(_COPY, "set it to false"),
    "haMasterAddress": Promise(_COPY, "leave it out, a slave cannot be had", ("",)),
    # where messages and tables are
    "storeType": Promise(_ROCKSDB, "set it to default, with a store of files", ("default", "")),
    "configManagerVersion": Promise(_ROCKSDB, "set it to v1, with tables in files", ("v1", "")),
    "readOnlyCommitLogStorePaths": Promise(
        "messages in further folders would not be found", "move their files into one folder", ("",)
    ),
    "messageStorePlugIn": Promise(
        "no plug-in is loaded, and what it stored (tiered storage) would not be found",
        "leave it out",
        ("",),
    ),
    "transRocksDBEnable": Promise(
        "open transactions are found in the log, what RocksDB holds of them would be unseen",
        "set it to false",
    ),
    "timerRocksDBEnable": Promise(
        "what waits is found in the log and timerwheel, what RocksDB holds would be unseen",
        "set it to false",
    ),
    "indexRocksDBEnable": Promise(
        "keys are found in index files, those that RocksDB holds would be unseen",
        "set it to false",
    ),
    # what becomes of a message
    "appendTopicForTimerDeleteKey": Promise(
        "a message that takes another one back names its unique key, without the topic before it",
        "set it to false",
    ),
    "enabledAppendPropCRC": Promise(
        "properties get no checksum, bodies have one", "set it to false"
    ),
    "forceVerifyPropCRC": Promise(
        "checksums of properties are not looked at, those of bodies are", "set it to false"
    ),
    "timerPrecisionMs": Promise(
        "slots are seconds, as other brokers of the store have them; deliveries are exact to the "
        "millisecond all the same",
        "set it to 1000",
        ("1000", ""),
    ),
    # who finds the broker
    "fetchNameSrvAddrByDnsLookup": Promise(
        "nameservers are not looked up", "name them in namesrvAddr=host:port;host:port"
    ),
    "fetchNamesrvAddrByAddressServer": Promise(
        "nameservers are not looked up", "name them in namesrvAddr=host:port;host:port"
    ),
}
"""Key to promise; a value that is not among its fine ones keeps a broker from starting."""

HARMLESS: Final = {
    "threads and what waits for them: there is one event loop": """
        ackMessageThreadPoolNums ackThreadPoolQueueCapacity adminBrokerThreadPoolNums
        adminBrokerThreadPoolQueueCapacity batchDispatchRequestThreadPoolNums
        clientCallbackExecutorThreads clientManageThreadPoolNums
        clientManagerThreadPoolQueueCapacity clientWorkerThreads
        consumerManageThreadPoolNums consumerManagerThreadPoolQueueCapacity
        disableCallbackExecutor disableNettyWorkerGroup dispatchCqThreads
        endTransactionPoolQueueCapacity endTransactionThreadPoolNums heartbeatThreadPoolNums
        heartbeatThreadPoolQueueCapacity litePullMessageThreadPoolNums
        litePullThreadPoolQueueCapacity loadBalanceProcessorThreadPoolNums
        loadBalanceThreadPoolQueueCapacity processReplyMessageThreadPoolNums
        pullMessageThreadPoolNums pullThreadPoolQueueCapacity putMessageFutureThreadPoolNums
        putThreadPoolQueueCapacity queryMessageThreadPoolNums queryThreadPoolQueueCapacity
        recoverConcurrently recoverThreadPoolNums replyThreadPoolQueueCapacity
        sendMessageThreadPoolNums sendThreadPoolQueueCapacity serverCallbackExecutorThreads
        serverNettyWorkerGroupEnable serverSelectorThreads serverWorkerThreads topicQueueLockNum
        useABSLock spinLockCollisionRetreatOptimalDegree useReentrantLockWhenPutMessage
        waitTimeMillsInAckQueue waitTimeMillsInAdminBrokerQueue waitTimeMillsInHeartbeatQueue
        waitTimeMillsInLitePullQueue waitTimeMillsInPullQueue waitTimeMillsInTransactionQueue""",
    "sockets, as the system or NetLimits has them": """
        channelNotActiveInterval clientAsyncSemaphoreValue clientChannelMaxIdleTimeSeconds
        clientCloseSocketIfTimeout clientOnewaySemaphoreValue clientPooledByteBufAllocatorEnable
        clientSocketRcvBufSize clientSocketSndBufSize enableFastChannelEventProcess
        enableReconnectForGoAway enableShutdownGracefully maxReconnectIntervalTimeSeconds
        scanAvailableNameSrv serverAsyncSemaphoreValue serverOnewaySemaphoreValue
        serverPooledByteBufAllocatorEnable serverSocketBacklog serverSocketRcvBufSize
        serverSocketSndBufSize shutdownWaitTimeSeconds socksProxyConfig transferMsgByHeap
        useEpollNativeSelector writeBufferHighWaterMark writeBufferLowWaterMark""",
    "of slaves, controllers, DLedger and their election, which nothing turns on": """
        asyncLearner brokerElectionPriority brokerHeartbeatInterval brokerNotActiveTimeoutMillis
        checkSyncStateSetPeriod controllerAddr controllerHeartBeatTimeoutMills dLegerGroup
        dLegerPeers dLegerSelfId fetchControllerAddrByDnsLookup haFlowControlEnable
        haHousekeepingInterval haMaxGapNotInSync haMaxTimeSlaveNotCatchup haSendHeartbeatInterval
        haTransferBatchSize inBrokerContainer maxChecksumRange maxHaTransferByteInSecond
        maxSlaveResendLength offsetCheckInSlave preferredLeaderId replicasPerDiskPartition
        sendHeartbeatTimeoutMillis skipPreOnline slaveTimeout storePathBrokerIdentity
        storePathDLedgerCommitLog storePathEpochFile syncBrokerMemberGroupPeriod
        syncBrokerMetadataPeriod syncControllerMetadataPeriod syncFromLastFile
        syncMasterFlushOffsetWhenStartup""",
    "of access control: users and policies are in memory, a change works at once": """
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authConfigPath
        clusterName configName
        statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
        statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum
        userCacheExpiredSecond userCacheMaxNum userCacheRefreshSecond""",
    "of POP: refused where it is asked for": """
        appendAckAsync appendCkAsync defaultPopShareQueueNum enableNotifyAfterPopOrderLockRelease
        enableNotifyBeforePopCalculateLag enablePopBatchAck enablePopBufferMerge enablePopLog
        enablePopMessageThreshold enableRetryTopicV2 enableSkipLongAwaitingAck
        initPopOffsetByCheckMsgInMem maxPopPollingSize popCkMaxBufferSize popCkOffsetMaxQueueSize
        popCkStayBufferTime popCkStayBufferTimeOut popConsumerFSServiceInit
        popConsumerKVServiceEnable popConsumerKVServiceInit popConsumerKVServiceLog
        popFromRetryProbability popInflightMessageThreshold popLongPollingForceNotifyInterval
        popPollingMapExpireTimeSeconds popPollingMapSize popPollingSize
        popResponseReturnActualRetryTopic popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead
        retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs reviveInterval reviveMaxSlow
        reviveScanTime skipWhenCKRePutReachMaxTimes
        maxMessageFilterNumForNotification popFromRetryProbabilityForPriority popReviveConcurrency
        popReviveSkipIfGroupAbsent priorityOrderAsc useMessageFilterForNotification
        useSeparateRetryQueue""",
    "of transactions: the turn of the loop gathers op messages": """
        transactionOpBatchInterval transactionOpMsgMaxSize""",
    "of lite topics: a request for one is refused by its code": """
        enableLiteEventMode enableLitePopLog liteEventCheckInterval liteEventFullDispatchDelayTime
        liteEventFullDispatchDelayTimeForWildcardGroup liteLagCountMetricsEnable
        liteLagLatencyCollectEnable liteLagLatencyMetricsEnable liteLagLatencyTopK
        liteSubscriptionCheckInterval liteSubscriptionCheckTimeoutMills liteTtlCheckInterval
        maxClientEventCount maxLiteSubscriptionCount minLiteTTl""",
    "light queues, of which there are maxLmqConsumeQueueNum at most in any case": """
        enableLmqQuota""",
    "delivery to the millisecond, in which nothing is dropped, and its counts, which are exact": """
        timerColdDataCheckIntervalMs timerEnableCheckMetrics timerEnableRetryUntilSuccess
        timerGetMessageThreadNum timerInterceptDelayLevel timerMetricSmallThreshold
        timerProgressLogIntervalMs timerPutMessageThreadNum timerSkipUnknownError
        timerReputServiceCorePoolSize timerReputServiceMaxPoolSize timerReputServiceQueueCapacity
        timerWheelSnapshotFlush timerWheelSnapshotIntervalMs""",
    "how a log is written and mapped: at least as safe here": """
        checkCRCOnRecover commitCommitLogLeastPages commitCommitLogThoroughInterval
        commitIntervalCommitLog commitLogForceSwapMapInterval commitLogSwapMapInterval
        commitLogSwapMapReserveFileNum cleanSwapedMapInterval debugLockEnable diskFallRecorded
        dispatchCqCacheNum dispatchFromSenderThread enableAcceleratedRecovery enableAsyncReput
        enableBatchPush enableBuildConsumeQueueConcurrently
        enableLogConsumeQueueRepeatedlyBuildWhenRecover enableRunningFlagsInFlush
        fastFailIfNoBufferInStorePool flushCommitLogLeastPages flushCommitLogThoroughInterval
        flushCommitLogTimed flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval
        flushLeastPagesWhenWarmMapedFile logicQueueForceSwapMapInterval logicQueueSwapMapInterval
        logicQueueSwapMapReserveFileNum mappedFileSwapEnable maxAsyncPutMessageRequests
        maxRecoveryCommitlogFiles putConsumeQueueDataByFileChannel
        putMessageTimeout readUnCommitted recheckReputOffsetFromCq transientStorePoolEnable
        transientStorePoolSize wakeCommitWhenPutMessage wakeFlushWhenPutMessage
        warmMapedFileEnable writeWithoutMmap
        checkCommitLogOffsetOnRecover commitLogRecoverMaxNum sharedByteBufferNum""",
    "when files go, in steps: the limits themselves work": """
        correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval
        enableCleanExpiredOffset logicalDiskSpaceCleanForciblyThreshold
        maxBatchDeleteFilesNum""",
    "of files that are still read when they go: they are read to the end by who has them open": """
        destroyMapedFileIntervalForcibly redeleteHangedFileInterval""",
    "of queues' files, which go in slices of 5 ms of the loop's time instead of one by one": """
        deleteConsumeQueueFilesInterval""",
    "reading old messages": """
        accessMessageInMemoryHotRatio cgColdReadThreshold coldCtrStrategyEnable
        coldDataFlowControlEnable coldDataScanEnable consumerFallbehindThreshold
        dataReadAheadEnable disableConsumeIfConsumerReadSlowly
        enableNetWorkFlowControl globalColdReadThreshold pullBatchMaxMessageCount
        searchBcqByCacheEnable travelCqFileNumWhenGetMessage usePIDColdCtrStrategy""",
    "indexes and kinds of queues that are not made": """
        bitMapLengthConsumeQueueExt enableCalcFilterBitMap enableConsumeQueueExt
        expectConsumerNumUseFilter filterDataCleanTimeSpan filterSupportRetry
        mappedFileSizeConsumeQueueExt mapperFileSizeBatchConsumeQueue maxConsumeQueueScan
        maxErrorRateOfBloomFilter messageIndexSafe
        putMsgIndexHightWater sampleCountThreshold sampleSteps
        indexFileReadEnable indexFileWriteEnable""",
    "of RocksDB, which nothing turns on": """
        bottomMostCompressionTypeForConsumeQueueStore cleanRocksDBDirtyCQIntervalMin
        combineAssignOffsetCQType combineCQEnableCheckSelf combineCQLoadingCQTypes
        combineCQMaxExtraSearchCommitLogFiles combineCQPreferCQType enableRocksDBLog
        memTableFlushIntervalMs realTimePersistRocksDBConfig rocksdbCQDoubleWriteEnable
        rocksdbCompressionType rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold
        statRocksDBCQIntervalSec
        combineCQUseRocksdbForLmq iteratorWhenUseRocksdbConsumeQueue maxRocksDBIndexQueryDays
        persistConsumerOffsetIncrementally timerRecallToTimeWheelEnable timerRecallToTimelineEnable
        timerRocksDBPrecisionMs timerRocksDBRollIntervalHours timerRocksDBRollMaxTps
        timerRocksDBRollRangeHours timerRocksDBStopScan timerRocksDBTimeExpiredMaxTps
        transWriteOriginTransHalfEnable transactionCheckRocksdbCoreThreads
        transactionCheckRocksdbMaxThreads transactionCheckRocksdbQueueCapacity
        useSeparateStorePathForRocksdbCQ useSingleRocksDBForAllConfigs""",
    "delivery of delayed messages, which is exact and in order here": """
        delayOffsetUpdateVersionStep enableScheduleAsyncDeliver enableScheduleMessageStats
        scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked""",
    "members, groups and topics": """
        asyncSendEnable autoMessageVersionOnTopicLen broadcastOffsetExpireMaxSecond
        broadcastOffsetExpireSecond compatibleWithOldNameSrv enableRegisterProducer
        enableSingleTopicRegister enableSplitMetadata enableSplitRegistration
        flushConsumerOffsetHistoryInterval forwardTimeout loadBalancePollNameServerInterval
        lockInStrictMode maxTopicLength realTimeNotifyConsumerChange splitMetadataSize
        splitRegistrationSize subscriptionExpiredTimeout useStaticSubscription""",
    "how nameservers are found where namesrvAddr does not say it": """
        cleanOfflineBrokerInterval fetchNamesrvAddrInterval rmqAddressServerDomain
        rmqAddressServerSubGroup updateNameServerAddrPeriod""",
    "statistics, metrics and logs: see httpPort and logLevel": """
        accountStatsEnable accountStatsPrintZeroValues autoDeleteUnusedStats commercialBaseCount
        commercialSizePerMsg enableDetailStat enableLmqStats enablePopMetrics estimateAccumulation
        highSpeedMode isolateLogEnable maxStatsIdleTimeInMinutes
        metricLoggingExporterIntervalInMills printChannelGroups printChannelGroupsMinNum""",
    "of a nameserver, or of where RocketMQ is installed": """
        brokerConfigPath clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity
        clusterTest configStorePath defaultThreadPoolNums defaultThreadPoolQueueCapacity
        deleteTopicWithBrokerRegistration enableAllTopicList enableControllerInNamesrv
        enableTopicList kvConfigPath needWaitForService notifyMinBrokerIdChanged
        orderMessageEnable productEnvName returnOrderTopicConfigToBroker rocketmqHome
        scanNotActiveBrokerInterval supportActingMaster unRegisterBrokerQueueCapacity
        waitSecondsForService""",
}
"""Why to keys; one warning names those that a settings file holds."""
