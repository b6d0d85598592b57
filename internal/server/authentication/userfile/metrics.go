package userfile

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var reloadsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "tenantry_user_file_reloads_total",
	Help:           "Times a changed file of users was read again, by file (token, basic-auth) and result (success, failure).",
	StabilityLevel: metrics.ALPHA,
}, []string{"file", "result"})

func init() { legacyregistry.MustRegister(reloadsTotal) }
