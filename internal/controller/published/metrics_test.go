package published

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// reports shows the metrics of some reports.
type reports []v1alpha1.PublishedObject

func (reports) Describe(descs chan<- *prometheus.Desc) {
	descs <- objectsDesc
	descs <- copiesDesc
}

func (r reports) Collect(shown chan<- prometheus.Metric) { collect(shown, r) }

func TestMetrics(t *testing.T) {
	about := func(group, resource, reason string, spaces, copies, kept, failed int32) v1alpha1.PublishedObject {
		return v1alpha1.PublishedObject{
			Object: v1alpha1.PublishedReference{Group: group, Resource: resource},
			Status: v1alpha1.PublishedObjectStatus{
				Spaces: spaces, Copies: copies, Kept: kept, Failed: failed,
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionPublished, Reason: reason}},
			},
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(reports{
		about("", "configmaps", v1alpha1.ReasonPublished, 10, 10, 0, 0),
		about("", "configmaps", v1alpha1.ReasonNotCopied, 10, 5, 2, 1),
		about("rbac.authorization.k8s.io", "clusterroles", v1alpha1.ReasonPublished, 10, 10, 0, 0),
		{Object: v1alpha1.PublishedReference{Resource: "secrets"}},
	})
	const want = `
# HELP tenantry_published_copies Number of copies that spaces are to have of published objects, by resource and state: current, pending, kept (the tenant has an object of its own there), failed.
# TYPE tenantry_published_copies gauge
tenantry_published_copies{resource="clusterroles.rbac.authorization.k8s.io",state="current"} 10
tenantry_published_copies{resource="clusterroles.rbac.authorization.k8s.io",state="failed"} 0
tenantry_published_copies{resource="clusterroles.rbac.authorization.k8s.io",state="kept"} 0
tenantry_published_copies{resource="clusterroles.rbac.authorization.k8s.io",state="pending"} 0
tenantry_published_copies{resource="configmaps",state="current"} 15
tenantry_published_copies{resource="configmaps",state="failed"} 1
tenantry_published_copies{resource="configmaps",state="kept"} 2
tenantry_published_copies{resource="configmaps",state="pending"} 2
tenantry_published_copies{resource="secrets",state="current"} 0
tenantry_published_copies{resource="secrets",state="failed"} 0
tenantry_published_copies{resource="secrets",state="kept"} 0
tenantry_published_copies{resource="secrets",state="pending"} 0
# HELP tenantry_published_objects Number of published objects, by resource and how far they are copied: InAllSpaces, Copying, TenantsObjectsKept, CopiesFailed, NotPublishable.
# TYPE tenantry_published_objects gauge
tenantry_published_objects{reason="CopiesFailed",resource="configmaps"} 1
tenantry_published_objects{reason="InAllSpaces",resource="clusterroles.rbac.authorization.k8s.io"} 1
tenantry_published_objects{reason="InAllSpaces",resource="configmaps"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
