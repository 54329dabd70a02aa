// Check reads the manifests that Helm makes of the chart, on its standard input,
// and holds them to the types of Kubernetes: a field that no such object has ends
// it with 1. With -config it writes the settings of the bridge to a file.
//
// It is a module of its own, so that the bridge does not depend on Kubernetes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// kinds are the objects that are known field by field. Those of cert-manager and
// of the operator of Prometheus are looked at by their names alone.
var kinds = map[string]func() runtime.Object{
	"v1/ConfigMap":                       func() runtime.Object { return new(corev1.ConfigMap) },
	"v1/Pod":                             func() runtime.Object { return new(corev1.Pod) },
	"v1/Service":                         func() runtime.Object { return new(corev1.Service) },
	"v1/ServiceAccount":                  func() runtime.Object { return new(corev1.ServiceAccount) },
	"apps/v1/StatefulSet":                func() runtime.Object { return new(appsv1.StatefulSet) },
	"policy/v1/PodDisruptionBudget":      func() runtime.Object { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1/NetworkPolicy": func() runtime.Object { return new(networkingv1.NetworkPolicy) },
	"networking.k8s.io/v1/Ingress":       func() runtime.Object { return new(networkingv1.Ingress) },

	"cert-manager.io/v1/Certificate":          nil,
	"monitoring.coreos.com/v1/ServiceMonitor": nil,
	"monitoring.coreos.com/v1/PrometheusRule": nil,
}

func main() {
	config := flag.String("config", "", "file to write the settings of the bridge to")
	flag.Parse()
	manifests, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = check(manifests, *config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check reads manifests, each behind a line of dashes.
func check(manifests []byte, config string) error {
	var errs []error
	read := 0
	for _, manifest := range regexp.MustCompile(`(?m)^---$`).Split(string(manifests), -1) {
		object, err := decode([]byte(manifest))
		if err != nil {
			errs = append(errs, err)
		}
		if object != nil {
			read++
		}
		settings, ok := object.(*corev1.ConfigMap)
		if !ok || config == "" {
			continue
		}
		if err := os.WriteFile(config, []byte(settings.Data["aibridge.yaml"]), 0o600); err != nil {
			errs = append(errs, err)
		}
	}
	if read == 0 {
		errs = append(errs, errors.New("there is no manifest"))
	}
	return errors.Join(errs...)
}

// decode is the object of a manifest, nil if its fields are not known here.
func decode(manifest []byte) (runtime.Object, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(manifest, &kind); err != nil || kind.Kind == "" {
		return nil, err
	}
	name := kind.APIVersion + "/" + kind.Kind
	known, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("%s is nothing that the chart makes", name)
	}
	if known == nil {
		return nil, nil
	}
	object := known()
	if err := yaml.UnmarshalStrict(manifest, object); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return object, nil
}
