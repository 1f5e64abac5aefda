"""RocketMQ's own scripts: mqadmin, mqbroker, mqnamesrv and mqshutdown, with their options."""
