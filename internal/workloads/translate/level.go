package translate

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Level is a level of the Pod Security Standards.
type Level string

// The levels, from the one that allows the most. No level allows what the table refuses.
const (
	Privileged Level = "privileged"
	Baseline   Level = "baseline"
	Restricted Level = "restricted"
)

// Or returns the level, or Baseline if there is none.
func (l Level) Or() Level { return cmp.Or(l, Baseline) }

// evaluator has upstream's checks, in their latest version.
var evaluator = sync.OnceValue(func() policy.Evaluator {
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	utilruntime.Must(err)
	return e
})

// check returns what the level does not allow.
func (l Level) check(meta *metav1.ObjectMeta, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	level, err := api.ParseLevel(string(l.Or()))
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	results := evaluator().EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, meta, spec)
	result := policy.AggregateCheckResults(results)
	if result.Allowed {
		return nil
	}
	reasons := slices.Clone(result.ForbiddenReasons)
	for i, detail := range result.ForbiddenDetails {
		if detail != "" {
			reasons[i] += " (" + detail + ")"
		}
	}
	return field.ErrorList{field.Forbidden(path, "it violates the Pod Security level "+string(l.Or())+" of the Tenant: "+strings.Join(reasons, ", ")+
		"; change it, or ask the platform's administrators for another level by workloads.podSecurity of the Tenant")}
}
