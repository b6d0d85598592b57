package sync

import (
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// checked keeps why Ingresses of spaces must not be on the host, for as long as they are there, so that one is not read again each time
// that others leave room, of which each tenant has as many as it stores.
type checked struct {
	mu sync.Mutex
	by map[item]checkedVersion
}

// checkedVersion is what is known of one version of an Ingress, by some rules.
type checkedVersion struct {
	uid     types.UID
	version string
	rules   translate.Rules
	// why is empty if it may be there.
	why string
}

func newChecked() *checked { return &checked{by: map[item]checkedVersion{}} }

// why returns why an Ingress must not be on the host, empty if it may be there.
func (c *checked) why(i item, ingress *networkingv1.Ingress, rules translate.Rules) string {
	c.mu.Lock()
	known := c.by[i]
	c.mu.Unlock()
	if known.uid == ingress.UID && known.version == ingress.ResourceVersion && equality.Semantic.DeepEqual(known.rules, rules) {
		return known.why
	}
	now := checkedVersion{uid: ingress.UID, version: ingress.ResourceVersion, rules: rules}
	if errs := rules.CheckIngress(&ingress.ObjectMeta, &ingress.Spec, field.NewPath("spec")); len(errs) > 0 {
		now.why = shortened(errs.ToAggregate().Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[i] = now
	return now.why
}

// forget forgets an Ingress that is gone.
func (c *checked) forget(i item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, i)
}
