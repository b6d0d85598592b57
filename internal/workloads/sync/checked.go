package sync

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// checked keeps why Ingresses and HTTPRoutes of spaces must not be on the host, for as long as they are there, so that
// one is not read again each time that others leave room, of which each tenant has as many as it stores.
type checked struct {
	keyed.Values[item, checkedVersion]
}

// checkedVersion is what is known of one version of an object, by some rules.
type checkedVersion struct {
	uid     types.UID
	version string
	rules   translate.Rules
	// why is empty if it may be there.
	why string
}

// why returns why an object must not be on the host, empty if it may be there. check says so.
func (c *checked) why(i item, of metav1.Object, rules translate.Rules, check func() error) string {
	known := c.Get(i)
	if known.uid == of.GetUID() && known.version == of.GetResourceVersion() && equality.Semantic.DeepEqual(known.rules, rules) {
		return known.why
	}
	now := checkedVersion{uid: of.GetUID(), version: of.GetResourceVersion(), rules: rules}
	if err := check(); err != nil {
		now.why = shortened(err.Error())
	}
	c.Set(i, now)
	return now.why
}
