package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/harness"
)

const namespace = "default"

func main() {
	ours := flag.String("tenantry", "bin/tenantry", "Binary of this project.")
	stock := flag.String("kube-apiserver", "bin/kube-apiserver", "Binary of the stock server.")
	rounds := flag.Int("rounds", 5, "Rounds; in each both servers are measured in turn.")
	var plan plan
	flag.IntVar(&plan.requests, "requests", 1500, "Requests of each kind in a round, but for lists.")
	flag.IntVar(&plan.lists, "lists", 300, "Lists of each kind in a round.")
	flag.IntVar(&plan.workers, "workers", 8, "Concurrent requests.")
	only := flag.String("only", "", "Regular expression for the kinds of requests to measure, all if it is empty. Objects are created and deleted anyway.")
	flag.Parse()
	plan.only = regexp.MustCompile(*only)
	harness.Main("bench", func(ctx context.Context) error {
		return harness.InTempDir("bench", func(dir string) error { return bench(ctx, dir, *ours, *stock, *rounds, plan) })
	})
}

// Users of the server: of the one who sends what is measured, in a space that is one of
// its own users.
const (
	userToken  = "bench-user"
	userName   = "jane"
	tenantName = "bench"
)

func start(ctx context.Context, dir string, command ...string) (*harness.APIServer, error) {
	return harness.StartAPIServer(ctx, harness.APIServerOptions{
		Dir: dir, Command: append(command, "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount"),
		Tokens: userToken + "," + userName + ",2,,," + tenantName + "\n",
	})
}

func bench(ctx context.Context, dir, ours, stock string, rounds int, plan plan) error {
	a, err := start(ctx, filepath.Join(dir, "tenantry"), ours, "server", "--controllers=false")
	if err != nil {
		return err
	}
	defer a.Stop()
	b, err := start(ctx, filepath.Join(dir, "kube-apiserver"), stock)
	if err != nil {
		return err
	}
	defer b.Stop()
	inSpace, err := space(ctx, a.Config)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "bench: in a space %s, stock %s, token of an administrator %s\n", inSpace.Host, b.Config.Host, harness.AdminToken)
	sides := [2]side{{inSpace, a.CPU}, {b.Config, b.CPU}}
	for i := range sides {
		if err := fill(ctx, sides[i].config); err != nil {
			return fmt.Errorf("filling namespace %q: %w", filled, err)
		}
		if sides[i].config, err = asUser(ctx, sides[i].config); err != nil {
			return fmt.Errorf("giving %q its rights: %w", userName, err)
		}
	}
	all := map[string][][2]measurement{}
	for range rounds + 1 { // the first warms up
		round, err := measure(ctx, sides, plan)
		if err != nil {
			return err
		}
		for name, m := range round {
			all[name] = append(all[name], m)
		}
	}
	report(all, plan)
	return nil
}

// space creates a tenant with a namespace and a quota without limits, as the manager
// would do; nothing else of a space is needed here.
func space(ctx context.Context, config *rest.Config) (*rest.Config, error) {
	tenants, err := harness.NewTenants(config)
	if err != nil {
		return nil, err
	}
	if err := tenants.Create(ctx, tenantName, v1alpha1.TenantSpec{}); err != nil {
		return nil, fmt.Errorf("creating a tenant: %w", err)
	}
	inSpace := harness.InSpace(config, tenantName)
	client, err := kubernetes.NewForConfig(inSpace)
	if err != nil {
		return nil, err
	}
	if _, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	_, err = client.CoreV1().ResourceQuotas(namespace).Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantQuota}}, metav1.CreateOptions{})
	return inSpace, err
}

// asUser gives the user all rights and returns when they are in effect.
func asUser(ctx context.Context, config *rest.Config) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: userName},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: userName}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	user := rest.CopyConfig(config)
	user.BearerToken = userToken
	if client, err = kubernetes.NewForConfig(user); err != nil {
		return nil, err
	}
	return user, wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, filled, metav1.GetOptions{})
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// filled is a namespace with 500 objects of 2 KB, the size of a small pod; those
// that are created and deleted have a fifth of that.
const filled = "filled"

func fill(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: filled}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	data := make([]string, 0, 40)
	for i := range cap(data) {
		data = append(data, fmt.Sprintf("value %d of an object, some fifty characters long", i*7919))
	}
	for i := range 500 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%d", i)}, Data: map[string]string{"k": strings.Join(data, "\n")}}
		if _, err := client.CoreV1().ConfigMaps(filled).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
