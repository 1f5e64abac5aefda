"""Every metric of a broker at one moment, for whoever hands them on."""
