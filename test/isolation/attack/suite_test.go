package attack

import (
	"context"
	"net"
	"regexp"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

const (
	// canary is in every object of others, and must be in no answer.
	canary = "canary-9c2d"
	// name is that of the objects that an attack is after.
	name = "seed"
	// robot is a service account in both spaces, with every right in its own.
	robot = "robot"
	// deniedAddress is one that no webhook of a tenant may have, beside the one that the
	// suite allows.
	deniedAddress = "127.66.0.1"
)

var tenantry *suite.Environment

func TestAttack(t *testing.T) {
	suite.Run(t, "Attack")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx, func(o *standalone.Options) {
		_, allowed, err := net.ParseCIDR("127.0.0.1/32")
		Expect(err).NotTo(HaveOccurred())
		o.Server.Egress.Allowed = []net.IPNet{*allowed}
	})
	system := tenantry.Config(tenant.System)
	publishTargets(ctx, system)
	for _, n := range []tenant.Name{"a", "b"} {
		tenantry.CreateTenants(ctx, n)
		seed(ctx, tenantry.Config(n), data(n))
	}
	seed(ctx, system, canary)
}, NodeTimeout(suite.StartTimeout))

// data is what the objects of a tenant hold.
func data(n tenant.Name) string {
	if n == "a" {
		return "own"
	}
	return canary
}

// seed makes the objects of one space.
func seed(ctx context.Context, config *rest.Config, data string) {
	GinkgoHelper()
	client := suite.Client(config)
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"attack": data}}
	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"k": data}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	seedTarget(ctx, config, data)
	_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: robot, Labels: meta.Labels}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: robot, Labels: meta.Labels},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: robot}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// ofOthers are keys in the spaces of tenants that other specs have made, by
// suite.Environment.NewTenant, and that may still be about to go.
var ofOthers = regexp.MustCompile(`/[a-z]+-[0-9]+/`)

// versions returns the keys of all objects that an attack could be after, and
// those that one has made, with their versions.
func versions(ctx context.Context) map[string]int64 {
	GinkgoHelper()
	keys := map[string]int64{}
	for _, prefix := range []string{
		"/registry/configmaps/", "/registry/secrets/", "/registry/clusterroles/", "/registry/clusterrolebindings/",
		"/registry/" + targets.Group + "/", "/registry/serviceaccounts/", "/registry/pods/", "/registry/namespaces/",
	} {
		response, err := tenantry.Etcd().Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		Expect(err).NotTo(HaveOccurred())
		for _, kv := range response.Kvs {
			if !ofOthers.Match(kv.Key) {
				keys[string(kv.Key)] = kv.ModRevision
			}
		}
	}
	return keys
}
