package published

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

const (
	specTimeout = 2 * time.Minute
	// spaceCount is the number of tenants that all specs share.
	spaceCount = 20
)

var (
	tenantry *suite.Environment
	// tenants are those that all specs share. A spec that changes a space for the
	// others makes its own.
	tenants []tenant.Name
)

func TestPublished(t *testing.T) {
	suite.Run(t, "Published")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx)
	for i := range spaceCount {
		tenants = append(tenants, tenant.Name(fmt.Sprintf("t%02d", i)))
	}
	tenantry.CreateTenants(ctx, tenants...)
}, NodeTimeout(suite.StartTimeout))

// objects returns a client for objects of one resource in a space.
func objects(n tenant.Name, r schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	GinkgoHelper()
	client := suite.Dynamic(tenantry.Config(n)).Resource(r)
	if namespace == "" {
		return client
	}
	return client.Namespace(namespace)
}

var isPublished = map[string]string{tenant.PublishedAnnotation: "true"}

// reportOf returns what the report about a published object says, empty if there
// is none.
func reportOf(ctx context.Context, r schema.GroupVersionResource, namespace, name string) func() (string, error) {
	if namespace != "" {
		name = namespace + "." + name
	}
	reports := objects(tenant.System, v1alpha1.GroupVersion.WithResource("publishedobjects"), "")
	return func() (string, error) {
		found, err := reports.Get(ctx, r.Resource+"."+name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		report := &v1alpha1.PublishedObject{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, report); err != nil {
			return "", err
		}
		condition := meta.FindStatusCondition(report.Status.Conditions, v1alpha1.ConditionPublished)
		if condition == nil { // it is made before its status is written
			return "", nil
		}
		return fmt.Sprintf("%d/%d %s: %s", report.Status.Copies, report.Status.Spaces, condition.Reason, condition.Message), nil
	}
}

// inAll is the report about what is in all spaces.
func inAll(spaces int) string {
	return fmt.Sprintf("%d/%d InAllSpaces: copied to %d of %d spaces", spaces, spaces, spaces, spaces)
}

// copiesOf returns in how many spaces there is a copy with a name.
func copiesOf(ctx context.Context, r schema.GroupVersionResource, name string) func() (int, error) {
	return func() (int, error) {
		list, err := objects(suite.All, r, "").List(ctx, metav1.ListOptions{
			LabelSelector: tenant.PublishedCopyLabel + "=" + tenant.PublishedCopy, FieldSelector: "metadata.name=" + name,
		})
		if err != nil {
			return 0, err
		}
		return len(list.Items), nil
	}
}

// countTenants returns how many spaces there are.
func countTenants(ctx context.Context) int {
	GinkgoHelper()
	list, err := tenantry.Tenants().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	return len(list.Items) - 1 // that of the system
}

// createNamespace creates a namespace in the system space and removes it, and
// what is published in it, with the spec.
func createNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := objects(tenant.System, namespaces, "").Create(ctx, object, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(objects(tenant.System, namespaces, "").Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	}, NodeTimeout(specTimeout))
}

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)
