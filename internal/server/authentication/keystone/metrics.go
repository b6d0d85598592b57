package keystone

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Results of look-ups.
const (
	resultValid   = "valid"
	resultInvalid = "invalid"
	resultRefused = "refused"
	resultOutage  = "outage"
	resultBusy    = "busy"
	resultLimited = "limited"
)

var (
	lookups = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "tenantry_keystone_lookups_total",
		Help: "Tokens that Keystone was to be asked about, by result (valid, invalid, refused, outage, " +
			"busy for those about which it was not asked because too many waited).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	lookupSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "tenantry_keystone_lookup_duration_seconds",
		Help:           "How long Keystone took to answer about a token.",
		Buckets:        []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		StabilityLevel: metrics.ALPHA,
	})
	cached = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "tenantry_keystone_cache_total",
		Help:           "Requests with what looks like a token of Keystone, by what is remembered of it (valid, invalid, nothing).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	logins = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "tenantry_keystone_logins_total",
		Help: "Passwords that Keystone was to be asked about, by result (as tenantry_keystone_lookups_total; " +
			"limited for those about which it was not asked because too many of the user or the address were wrong).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	loginSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "tenantry_keystone_login_duration_seconds",
		Help:           "How long Keystone took to answer about a password, and about the roles of its user.",
		Buckets:        []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		StabilityLevel: metrics.ALPHA,
	})
	cachedPasswords = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "tenantry_keystone_password_cache_total",
		Help:           "Requests with a password for Keystone, by what is remembered of it (valid, invalid, nothing).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
)

func init() {
	legacyregistry.MustRegister(lookups, lookupSeconds, cached, logins, loginSeconds, cachedPasswords)
}
