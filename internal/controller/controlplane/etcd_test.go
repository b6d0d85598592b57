package controlplane

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/pki"
)

func onEtcd(etcd v1alpha1.EtcdStorage) *v1alpha1.ControlPlane {
	return &v1alpha1.ControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "one"},
		Spec:       v1alpha1.ControlPlaneSpec{Storage: v1alpha1.ControlPlaneStorage{Etcd: &etcd}},
	}
}

func TestEtcdArgs(t *testing.T) {
	files := []string{
		"--etcd-claim=team-a/one/1", "--etcd-certfile=/etc/tenantry/etcd/tls.crt",
		"--etcd-keyfile=/etc/tenantry/etcd/tls.key", "--etcd-cafile=/etc/tenantry/etcd/ca.crt",
	}
	for name, tc := range map[string]struct {
		etcd v1alpha1.EtcdStorage
		want []string
	}{
		"the prefix of its name": {
			v1alpha1.EtcdStorage{Endpoints: []string{"https://a:2379"}},
			[]string{"--etcd-servers=https://a:2379", "--etcd-prefix=/control-planes/team-a/one"},
		},
		"members in any order, so that another order makes no new pods": {
			v1alpha1.EtcdStorage{Endpoints: []string{"https://b:2379", "https://[fd00::1]:2379", "https://a:2379"}, Prefix: "/x"},
			[]string{"--etcd-servers=https://[fd00::1]:2379,https://a:2379,https://b:2379", "--etcd-prefix=/x"},
		},
		"etcds of some resources": {
			v1alpha1.EtcdStorage{Endpoints: []string{"https://a:2379"}, Prefix: "/x", Overrides: []v1alpha1.EtcdOverride{
				{Resource: "events", Endpoints: []string{"https://d:1", "https://c:1"}},
				{Resource: "leases.coordination.k8s.io", Endpoints: []string{"https://e:1"}},
			}},
			[]string{
				"--etcd-servers=https://a:2379", "--etcd-prefix=/x", "--etcd-servers-overrides=/events#https://c:1;https://d:1",
				"--etcd-servers-overrides=coordination.k8s.io/leases#https://e:1",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := append(append(tc.want[:2:2], files...), tc.want[2:]...)
			if diff := cmp.Diff(want, etcdArgs(onEtcd(tc.etcd), "team-a/one/1")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplicas(t *testing.T) {
	chosen := onEtcd(v1alpha1.EtcdStorage{})
	chosen.Spec.Replicas = new(int32(5))
	for name, tc := range map[string]struct {
		cp   *v1alpha1.ControlPlane
		want int32
	}{
		"embedded":         {&v1alpha1.ControlPlane{}, 1},
		"etcd":             {onEtcd(v1alpha1.EtcdStorage{}), 2},
		"etcd, and chosen": {chosen, 5},
	} {
		if got := replicas(tc.cp); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

func TestCheckEtcd(t *testing.T) {
	authority, err := pki.NewAuthority("etcd")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := authority.Issue(pki.FrontProxyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey, err := authority.Issue(pki.FrontProxyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string][]byte{"tls.crt": certPEM, "tls.key": keyPEM, "ca.crt": authority.PEM(), "more": nil}
	now := time.Now()
	for name, tc := range map[string]struct {
		spoil func(map[string][]byte)
		now   time.Time
		want  string
	}{
		"whole":                          {func(map[string][]byte) {}, now, ""},
		"empty":                          {func(d map[string][]byte) { clear(d) }, now, "tls.crt is missing or empty"},
		"without a key":                  {func(d map[string][]byte) { delete(d, "tls.key") }, now, "tls.key is missing or empty"},
		"with an empty authority":        {func(d map[string][]byte) { d["ca.crt"] = nil }, now, "ca.crt is missing or empty"},
		"the key of another":             {func(d map[string][]byte) { d["tls.key"] = otherKey }, now, "tls.crt and tls.key are no certificate and its key"},
		"no certificate":                 {func(d map[string][]byte) { d["tls.crt"] = []byte("spoilt") }, now, "tls.crt and tls.key are no certificate and its key"},
		"no authority":                   {func(d map[string][]byte) { d["ca.crt"] = []byte("spoilt") }, now, "ca.crt holds no certificate"},
		"a certificate that has expired": {func(map[string][]byte) {}, now.AddDate(2, 0, 0), "the certificate in tls.crt expired on"},
	} {
		t.Run(name, func(t *testing.T) {
			data := maps.Clone(whole)
			tc.spoil(data)
			err := checkEtcd(data, tc.now)
			if got := errorText(err); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got error %q, want %q", got, tc.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
