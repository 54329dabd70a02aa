// What an agent remembers of its calls over restarts.
export {};
