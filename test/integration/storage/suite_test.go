package storage

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

const timeout = 2 * time.Minute

var tenantry *suite.Environment

// spaces have names that are prefixes of each other, and of namespaces.
var spaces = []tenant.Name{tenant.System, "foo", "foobar", "a", "a-b"}

func TestStorage(t *testing.T) {
	suite.Run(t, "Storage")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx, func(o *standalone.Options) { o.WrapStorage = stalling })
	tenantry.CreateTenants(ctx, spaces[1:]...)
}, NodeTimeout(suite.StartTimeout))

// ensureNamespace creates a namespace, if it is not there yet, whose objects need
// no service account.
func ensureNamespace(ctx context.Context, client kubernetes.Interface, name string) {
	GinkgoHelper()
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

// keys returns the keys in etcd that begin with a prefix.
func keys(ctx context.Context, prefix string) []string {
	GinkgoHelper()
	response, err := tenantry.Etcd().Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	Expect(err).NotTo(HaveOccurred())
	found := make([]string, 0, len(response.Kvs))
	for _, kv := range response.Kvs {
		found = append(found, string(kv.Key))
	}
	return found
}

// decode decodes a stored config map.
func decode(data []byte) *corev1.ConfigMap {
	GinkgoHelper()
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(object).To(BeAssignableToTypeOf(&corev1.ConfigMap{}))
	return object.(*corev1.ConfigMap)
}

func clusterRole(name string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// refuseNewObjects matches the error of a space that takes no new objects.
func refuseNewObjects() types.GomegaMatcher {
	return And(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring("takes no new objects")))
}
